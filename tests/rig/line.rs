//! A line to a server that can be slow, silent or cut: plain TCP, nothing is looked into.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
    sync::{mpsc, watch},
    time::Instant,
};

/// How the line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Of every byte, in each direction.
    pub delay: Duration,
    /// Connections are taken and nothing gets through; what waits gets through afterwards.
    pub silent: bool,
    /// Rises: every connection is cut.
    cuts: u64,
    /// Rises: nothing gets through on any connection that is open, for good; new ones are well. So does a server look
    /// that was replaced by another at its address.
    hushes: u64,
}

/// The line.
pub struct Line {
    pub port: u16,
    weather: Arc<watch::Sender<Weather>>,
}

/// Chunks on their way in one direction.
const UNDER_WAY: usize = 4_096;

impl Line {
    /// To a port of this machine.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let weather = Arc::new(watch::Sender::new(Weather::default()));
        let seen = Arc::clone(&weather);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(connect(near, port, seen.subscribe()));
            }
        });
        Self { port: own, weather }
    }

    /// To the server of a database address; answers the address over this line.
    pub async fn to_database(url: &str) -> (Self, String) {
        let (_, behind) = url.split_once("127.0.0.1:").expect("a database of this machine");
        let (port, _) = behind.split_once('/').expect("a name");
        let line = Self::to(port.parse().expect("a port")).await;
        let url = url.replace(&format!(":{port}/"), &format!(":{}/", line.port));
        (line, url)
    }

    pub fn slow(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    pub fn silent(&self, silent: bool) {
        self.weather.send_modify(|weather| weather.silent = silent);
    }

    pub fn hush(&self) {
        self.weather.send_modify(|weather| weather.hushes += 1);
    }

    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }
}

async fn connect(near: TcpStream, port: u16, mut weather: watch::Receiver<Weather>) {
    let cuts = weather.borrow().cuts;
    let (far, mut calm) = (weather.clone(), weather.clone());
    let open = async move {
        while calm.borrow_and_update().silent {
            calm.changed().await.ok()?;
        }
        TcpStream::connect(("127.0.0.1", port)).await.ok()
    };
    let cut = async move { while weather.changed().await.is_ok() && weather.borrow().cuts == cuts {} };
    let both = async {
        let Some(far_end) = open.await else { return };
        let _ = near.set_nodelay(true).and(far_end.set_nodelay(true));
        let (near_in, near_out) = near.into_split();
        let (far_in, far_out) = far_end.into_split();
        tokio::join!(carry(near_in, far_out, far.clone()), carry(far_in, near_out, far.clone()));
    };
    tokio::select! { () = both => {} () = cut => {} }
}

async fn carry(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
) {
    let (send, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let delays = weather.clone();
    let hushes = weather.borrow().hushes;
    let reading = async move {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + delays.borrow().delay;
            if send.send((due, buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, bytes)) = under_way.recv().await {
            tokio::time::sleep_until(due).await;
            weather.mark_unchanged();
            while weather.borrow().silent || weather.borrow().hushes != hushes {
                if weather.changed().await.is_err() {
                    return;
                }
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(reading, writing);
}
