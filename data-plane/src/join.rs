//! This node's place in the fleet: it says which stores it has opened, is told which shards it owns, and beats its heart.
//!
//! The control plane leases; a lease is real once it was raised in the store. **Invariant:** when the control plane is
//! out of sight, what is owned stays owned: only a store's fence ends an owner.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, future::join_all, stream::SelectAll};
use orch8_model::{Fault, LeaseEpoch, NodeName, Shard, StoreName};
use orch8_proto::{
    door,
    v1::{
        self, fleet_service_client::FleetServiceClient, join_request::Frame as Say,
        join_response::Frame as Told,
    },
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_stream::wrappers::{ReceiverStream, WatchStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use uuid::Uuid;

use crate::{
    replicas::Replicas,
    shard::StoreRoom,
    store::{Lease, Store},
};

/// Between two attempts to reach the control plane, and to own what a store failed to give.
const AGAIN: Duration = Duration::from_millis(500);
/// Frames on their way to the control plane: a heartbeat waits only behind the one before.
const OUTBOX: usize = 4;
/// Wait for the control plane to take the last word.
const FAREWELL: Duration = Duration::from_secs(2);
/// Heartbeat before the control plane said its own.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// Leases of a store, by shard.
type Leases = BTreeMap<Shard, LeaseEpoch>;

/// Who this node is, and what it can own.
#[derive(Clone, Debug)]
pub struct Membership {
    pub control_plane: Replicas,
    pub node: NodeName,
    /// Where clients and workers reach this node.
    pub address: String,
    pub rooms: Vec<Arc<StoreRoom>>,
}

/// A store's room with what it is to own, and what of it the store refused.
struct Seat {
    room: Arc<StoreRoom>,
    wanted: watch::Sender<Leases>,
    refused: Arc<Mutex<Vec<(Lease, LeaseEpoch)>>>,
    /// Rung when `refused` changed.
    news: watch::Sender<()>,
}

impl Membership {
    /// Keeps this node in the fleet. When `leave` fires, the owners have to be gone already: it says so and ends.
    pub async fn keep(self, leave: CancellationToken) {
        let process = Uuid::new_v4();
        let seats: HashMap<StoreName, Seat> = self
            .rooms
            .iter()
            .map(|room| (room.name().clone(), Seat::new(Arc::clone(room), &leave)))
            .collect();
        while !leave.is_cancelled() {
            let replica = self.control_plane.chosen();
            match self.attend(replica.channel, process, &seats, &leave).await {
                Ok(()) => return,
                Err(why) => {
                    tracing::warn!(node.id = %self.node, why, "not in the fleet now; going on with what is owned");
                    self.control_plane.move_on(replica.number);
                }
            }
            tokio::select! {
                () = sleep(AGAIN) => {}
                () = leave.cancelled() => return,
            }
        }
    }

    /// One stream. `Ok`: this node has left.
    async fn attend(
        &self,
        replica: Channel,
        process: Uuid,
        seats: &HashMap<StoreName, Seat>,
        leave: &CancellationToken,
    ) -> Result<(), String> {
        let said = |status: tonic::Status| status.message().to_owned();
        let (say, outbox) = mpsc::channel(OUTBOX);
        let hello = v1::JoinRequest { frame: Some(Say::Hello(self.hello(process))) };
        say.send(hello).await.map_err(|e| e.to_string())?;
        let request = self.control_plane.request(ReceiverStream::new(outbox));
        let mut client = FleetServiceClient::new(replica);
        let mut told = tokio::select! {
            opened = client.join(request) => opened.map_err(said)?.into_inner(),
            () = leave.cancelled() => return Ok(()),
        };
        let mut beat = heartbeat(HEARTBEAT);
        let mut news: SelectAll<WatchStream<()>> = seats.values().flat_map(Seat::news).collect();
        loop {
            tokio::select! {
                frame = told.message() => match frame.map_err(said)?.and_then(|message| message.frame) {
                    Some(Told::Welcome(welcome)) => {
                        let every = door::duration("heartbeat_interval", welcome.heartbeat_interval).ok().flatten();
                        beat = heartbeat(every.unwrap_or(HEARTBEAT));
                    }
                    Some(Told::Leases(leases)) => tell(leases, seats).map_err(|fault| fault.to_string())?,
                    None => return Err("the control plane ended the stream".to_owned()),
                },
                _ = beat.tick() => {}
                Some(()) = news.next() => {}
                () = leave.cancelled() => {
                    let farewell = v1::JoinRequest { frame: Some(Say::Leave(v1::JoinLeave {})) };
                    let _ = timeout(FAREWELL, async {
                        let _ = say.send(farewell).await;
                        while let Ok(Some(_)) = told.message().await {}
                    })
                    .await;
                    return Ok(());
                }
            }
            let heartbeat = v1::JoinRequest { frame: Some(Say::Heartbeat(pulse(seats).await)) };
            // A control plane that does not listen does not keep us from leaving.
            tokio::select! {
                sent = say.send(heartbeat) => sent.map_err(|_| "the control plane ended the stream".to_owned())?,
                () = leave.cancelled() => {}
            }
        }
    }

    fn hello(&self, process: Uuid) -> v1::JoinHello {
        let offer = |room: &Arc<StoreRoom>| v1::StoreOffer {
            name: room.name().to_string(),
            kind: kind(room.store()).into(),
            shard_count: room.store().shards().into(),
        };
        v1::JoinHello {
            node_id: self.node.to_string(),
            process_id: process.to_string(),
            address: self.address.clone(),
            stores: self.rooms.iter().map(offer).collect(),
        }
    }
}

impl Seat {
    /// A seat whose room follows what is wanted of it, until `leave`.
    fn new(room: Arc<StoreRoom>, leave: &CancellationToken) -> Self {
        let seat = Self {
            room: Arc::clone(&room),
            wanted: watch::Sender::new(Leases::new()),
            refused: Arc::default(),
            news: watch::Sender::new(()),
        };
        let follow = follow(room, seat.wanted.subscribe(), Arc::clone(&seat.refused), seat.news.clone());
        let leave = leave.clone();
        tokio::spawn(async move {
            tokio::select! { () = follow => {} () = leave.cancelled() => {} }
        });
        seat
    }

    fn news(&self) -> [WatchStream<()>; 2] {
        [WatchStream::from_changes(self.room.changes()), WatchStream::from_changes(self.news.subscribe())]
    }
}

/// Owns what is wanted, again and again until the store agrees. An owner that its store put out is made anew: if it is
/// another node's by now the store says so, and if the store was restored from a backup it takes the lease once more.
async fn follow(
    room: Arc<StoreRoom>,
    mut wanted: watch::Receiver<Leases>,
    refused: Arc<Mutex<Vec<(Lease, LeaseEpoch)>>>,
    news: watch::Sender<()>,
) {
    let mut changes = room.changes();
    let mut settled = Leases::new();
    loop {
        tokio::select! {
            told = wanted.changed() => match told {
                Ok(()) => {}
                Err(_) => return,
            },
            Ok(()) = changes.changed() => {
                if !room.lacks(&settled) {
                    continue;
                }
                sleep(AGAIN).await;
            }
        }
        loop {
            let leases = wanted.borrow_and_update().clone();
            changes.mark_unchanged();
            match room.own(&leases).await {
                Ok(unwilling) => {
                    settled = leases;
                    settled.retain(|shard, _| !unwilling.iter().any(|(lease, _)| lease.shard == *shard));
                    *refused.lock().unwrap_or_else(PoisonError::into_inner) = unwilling;
                    news.send_replace(());
                    break;
                }
                Err(error) => {
                    tracing::error!(store = %room.name(), error = &error as &dyn std::error::Error, "shards cannot be taken yet");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Passes leases on to the rooms. Errors: one that names what this node never offered.
fn tell(leases: v1::ShardLeases, seats: &HashMap<StoreName, Seat>) -> Result<(), Fault> {
    let mut by_store: HashMap<StoreName, Leases> =
        seats.keys().map(|store| (store.clone(), Leases::new())).collect();
    for lease in leases.leases {
        let store: StoreName = door::name("store", lease.store)?;
        let shard = u16::try_from(lease.shard).map_err(|_| Fault::invalid("shard", "is out of range"))?;
        let epoch = LeaseEpoch::new(lease.lease_epoch)
            .ok_or_else(|| Fault::invalid("lease_epoch", "is out of range"))?;
        let of_store = by_store
            .get_mut(&store)
            .ok_or_else(|| Fault::invalid("store", "was never offered by this node"))?;
        of_store.insert(Shard(shard), epoch);
    }
    for (store, leases) in by_store {
        if let Some(seat) = seats.get(&store) {
            seat.wanted.send_if_modified(|wanted| {
                let changed = *wanted != leases;
                *wanted = leases;
                changed
            });
        }
    }
    Ok(())
}

/// What is owned now, and what was refused. A store that does not answer is told of with the commit number 0.
async fn pulse(seats: &HashMap<StoreName, Seat>) -> v1::JoinHeartbeat {
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    let numbers = join_all(seats.values().map(|seat| async move {
        let owned = seat.room.owned();
        let shards: Vec<Shard> = owned.keys().copied().collect();
        let numbers = timeout(AGAIN, seat.room.store().commit_seqs(&shards)).await;
        (seat, owned, numbers.ok().and_then(Result::ok).unwrap_or_default())
    }))
    .await;
    for (seat, owned, numbers) in numbers {
        let numbers: HashMap<Shard, u64> =
            numbers.into_iter().map(|(shard, _, number)| (shard, number)).collect();
        held.extend(owned.into_iter().map(|(shard, epoch)| v1::HeldShard {
            store: seat.room.name().to_string(),
            shard: shard.0.into(),
            lease_epoch: epoch.get(),
            commit_seq: numbers.get(&shard).copied().unwrap_or_default(),
        }));
        let unwilling = seat.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        refused.extend(unwilling.into_iter().map(|(lease, stored)| v1::RefusedShard {
            store: seat.room.name().to_string(),
            shard: lease.shard.0.into(),
            lease_epoch: lease.epoch.get(),
            stored_epoch: stored.get(),
        }));
    }
    v1::JoinHeartbeat { held, refused }
}

fn kind(store: &Store) -> v1::StoreKind {
    match store {
        Store::Sqlite(_) => v1::StoreKind::Sqlite,
        Store::Postgres(_) => v1::StoreKind::Postgres,
    }
}

/// The first beat comes after one interval; a late one does not make the next ones come sooner.
fn heartbeat(every: Duration) -> tokio::time::Interval {
    let every = every.max(Duration::from_millis(1));
    let mut beat = interval(every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset_at(Instant::now() + every);
    beat
}
