//! A node as the control plane sees it: one stream of `Join`, driven by hand.

// Not every suite asks everything of a node.
#![allow(dead_code)]

use std::{collections::BTreeMap, time::Duration};

use orch8_proto::{
    client::Failure,
    v1::{self, join_request::Frame as Says, join_response::Frame as Told},
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::rig::{NODE, Rig, SOON, times};

/// Process ids.
pub const P1: &str = "00000000-0000-4000-8000-000000000001";
pub const P2: &str = "00000000-0000-4000-8000-000000000002";
pub const P3: &str = "00000000-0000-4000-8000-000000000003";

/// Store and shard → epoch.
pub type Leases = BTreeMap<(String, u32), u64>;

pub struct Node {
    say: mpsc::Sender<v1::JoinRequest>,
    told: Streaming<v1::JoinResponse>,
    /// `None` until it was told the first time.
    pub leases: Option<Leases>,
    beating: Option<JoinHandle<()>>,
}

/// Offers the store `main` with four shards.
pub fn hello(node: &str, process: &str) -> v1::JoinHello {
    v1::JoinHello {
        node_id: node.into(),
        process_id: process.into(),
        address: format!("http://{node}:7233"),
        stores: vec![offer("main", v1::StoreKind::Sqlite, 4)],
    }
}

pub fn offer(name: &str, kind: v1::StoreKind, shard_count: u32) -> v1::StoreOffer {
    v1::StoreOffer { name: name.into(), kind: kind.into(), shard_count }
}

/// All shards of `main` under one epoch.
pub fn main_at(epoch: u64) -> Leases {
    (0..4).map(|shard| (("main".to_owned(), shard), epoch)).collect()
}

pub fn held(shard: u32, lease_epoch: u64, commit_seq: u64) -> v1::HeldShard {
    v1::HeldShard { store: "main".into(), shard, lease_epoch, commit_seq }
}

impl Node {
    /// Joins, is welcome, and beats its heart until it is told not to.
    pub async fn join(rig: &Rig, hello: v1::JoinHello) -> Self {
        Self::join_as(rig, NODE, hello).await.expect("welcome")
    }

    pub async fn join_as(rig: &Rig, key: &str, hello: v1::JoinHello) -> Result<Self, Failure> {
        let mut node = Self::open(rig, key, Says::Hello(hello)).await;
        let welcome = node.next().await.map_err(Failure::from)?;
        let Some(Told::Welcome(welcome)) = welcome else { panic!("{welcome:?} is no welcome") };
        let heartbeat = Duration::try_from(welcome.heartbeat_interval.expect("one")).expect("positive");
        let give_up = Duration::try_from(welcome.give_up_after.expect("one")).expect("positive");
        assert!(heartbeat * 3 <= give_up, "three may be lost");
        node.beat_by_itself(heartbeat / 3);
        Ok(node)
    }

    /// Opens a stream with this as its first message.
    pub async fn open(rig: &Rig, key: &str, first: Says) -> Self {
        let (say, outbox) = mpsc::channel(16);
        say.send(v1::JoinRequest { frame: Some(first) }).await.expect("room");
        let opened = rig.fleet(key).join(ReceiverStream::new(outbox)).await.expect("opens");
        Self { say, told: opened.into_inner(), leases: None, beating: None }
    }

    fn beat_by_itself(&mut self, every: Duration) {
        let say = self.say.clone();
        self.beating = Some(tokio::spawn(async move {
            while say.send(request(v1::JoinHeartbeat::default())).await.is_ok() {
                tokio::time::sleep(every).await;
            }
        }));
    }

    /// Says nothing any more; the stream stays open.
    pub fn falls_silent(&mut self) {
        if let Some(beating) = self.beating.take() {
            beating.abort();
        }
    }

    pub fn is_heard_again(&mut self) {
        self.beat_by_itself(times().heartbeat / 3);
    }

    pub async fn say(&self, frame: Says) {
        self.say.send(v1::JoinRequest { frame: Some(frame) }).await.expect("an open stream");
    }

    pub async fn beat(&self, held: Vec<v1::HeldShard>, refused: Vec<v1::RefusedShard>) {
        self.say(Says::Heartbeat(v1::JoinHeartbeat { held, refused })).await;
    }

    /// The next thing it is told; `None`: the stream ended well.
    async fn next(&mut self) -> Result<Option<Told>, Status> {
        let message = timeout(SOON, self.told.message()).await.expect("soon")?;
        Ok(message.map(|message| message.frame.expect("a frame")))
    }

    /// Waits until it owns exactly this.
    pub async fn owns(&mut self, wanted: Leases) {
        let told = timeout(SOON, async {
            while self.leases.as_ref() != Some(&wanted) {
                let told = self.next().await.expect("an open stream");
                let Some(Told::Leases(set)) = told else { panic!("{told:?} are no leases") };
                let leases = set.leases.into_iter();
                self.leases = Some(leases.map(|l| ((l.store, l.shard), l.lease_epoch)).collect());
            }
        });
        told.await.unwrap_or_else(|_| panic!("owns {:?} and not {wanted:?}", self.leases));
    }

    /// Is told nothing for this long.
    pub async fn is_left_alone(&mut self, long: Duration) {
        if let Ok(told) = timeout(long, self.told.message()).await {
            panic!("was told {told:?}");
        }
    }

    /// Why its stream ended. What it was told before is passed over.
    pub async fn end(&mut self) -> Failure {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended well"),
                Err(status) => return status.into(),
            }
        }
    }

    /// Leaves, and is let go.
    pub async fn leave(mut self) {
        self.falls_silent();
        self.say(Says::Leave(v1::JoinLeave {})).await;
        while self.next().await.expect("ends well").is_some() {}
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.falls_silent();
    }
}

fn request(heartbeat: v1::JoinHeartbeat) -> v1::JoinRequest {
    v1::JoinRequest { frame: Some(Says::Heartbeat(heartbeat)) }
}
