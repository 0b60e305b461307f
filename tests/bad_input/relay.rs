//! A way to the engine that counts the connections taken on it: a client that reconnects in silence is found out.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

pub struct Relay {
    pub address: String,
    taken: Arc<AtomicUsize>,
}

impl Relay {
    pub async fn to(engine: &str) -> Self {
        let engine = engine.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut far = TcpStream::connect(&engine).await.expect("the engine");
                // Or else each call waits for the acknowledgement of the one before.
                near.set_nodelay(true).and(far.set_nodelay(true)).expect("no delay");
                tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
            }
        });
        Self { address, taken }
    }

    pub fn connections(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}
