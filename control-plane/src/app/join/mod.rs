//! A node takes its place: it is told what it owns, is listened to, and leaves. One task for each stream.
//!
//! **Invariant:** a database that does not answer ends no stream and takes nobody's shards. What a node owns it goes on
//! owning; only what it says is not written down meanwhile.

use std::collections::BTreeMap;

use chrono::Utc;
use futures::{Stream, StreamExt as _};
use orch8_authority::{Confirmed, Hearing, Holder, StoreShape, is_believable, judge_confirmation};
use orch8_model::{Fault, LeaseEpoch, Millis, NodeName, ProcessId, Reason, Shard, StoreName};
use orch8_proto::identity::Principal;
use tokio::{
    sync::mpsc,
    time::{Duration, Instant, sleep_until, timeout},
};

use super::to_the_end;
use crate::{ControlPlane, FleetTimes, store::Leases};

mod enter;

/// A stream whose first message does not come is nobody's.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// A node that takes nothing for this long is cut; it comes back and is told its whole set.
const TAKE_WITHIN: Duration = Duration::from_secs(30);

/// What a node says.
#[derive(Clone, Debug)]
pub enum Said {
    Hello(Hello),
    Heartbeat(Heartbeat),
    Leave,
}

/// Who it is.
#[derive(Clone, Debug)]
pub struct Hello {
    pub node: NodeName,
    pub process: ProcessId,
    pub address: String,
    /// Each name once.
    pub stores: Vec<(StoreName, StoreShape)>,
}

/// What it owns, and what it could not take.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub held: Vec<Held>,
    pub refused: Vec<Refused>,
}

/// A shard it owns.
#[derive(Clone, Debug)]
pub struct Held {
    pub store: StoreName,
    pub shard: Shard,
    pub epoch: LeaseEpoch,
    /// 0: its store did not say.
    pub commit_seq: u64,
}

/// A lease that a store refused.
#[derive(Clone, Debug)]
pub struct Refused {
    pub store: StoreName,
    pub shard: Shard,
    pub epoch: LeaseEpoch,
    pub stored: LeaseEpoch,
}

/// What it is told.
#[derive(Clone, Debug)]
pub enum Told {
    Welcome(FleetTimes),
    /// All that it owns from now on.
    Leases(Leases),
}

/// Listens and tells until the node leaves or is gone, its name is another's, its key ends, or the control plane closes.
pub async fn join(
    plane: ControlPlane,
    caller: Principal,
    said: impl Stream<Item = Result<Said, Fault>> + Send + Unpin,
    told: mpsc::Sender<Result<Told, Fault>>,
) {
    let stopped = plane.fleet.stopped();
    let ended = tokio::select! {
        ended = converse(&plane, caller, said, &told) => ended,
        () = told.closed() => return,
        () = stopped.cancelled() => {
            Err(Fault::new(Reason::Draining, "the control plane is shutting down; join another replica"))
        }
    };
    if let Err(fault) = ended {
        // A node that still takes is told; one that does not is told by the end of its stream.
        let _ = timeout(TAKE_WITHIN, told.send(Err(fault))).await;
    }
}

async fn converse(
    plane: &ControlPlane,
    caller: Principal,
    mut said: impl Stream<Item = Result<Said, Fault>> + Send + Unpin,
    told: &mpsc::Sender<Result<Told, Fault>>,
) -> Result<(), Fault> {
    let hello = match timeout(HELLO_WITHIN, said.next()).await {
        Ok(Some(Ok(Said::Hello(hello)))) => hello,
        Ok(Some(Ok(Said::Heartbeat(_) | Said::Leave)) | None) | Err(_) => {
            return Err(Fault::invalid("frame", "must be hello in the first message"));
        }
        Ok(Some(Err(fault))) => return Err(fault),
    };
    let _seat = plane.fleet.seat_for_joining().ok_or_else(crowded)?;
    let holder = Holder { node: hello.node.clone(), process: hello.process };
    enter::enter(plane, hello).await?;
    let mut member = Member { plane, caller, holder, told, leases: None, known: BTreeMap::new() };
    member.tell(Told::Welcome(plane.times)).await?;
    let (mut views, mut changes) = (plane.fleet.views(), plane.fleet.changes());
    views.mark_changed();
    let mut listen_from = Instant::now();
    loop {
        tokio::select! {
            frame = said.next(), if Instant::now() >= listen_from => match frame {
                Some(Ok(Said::Heartbeat(heartbeat))) => {
                    member.hear(heartbeat).await?;
                    listen_from = Instant::now() + plane.times.pace();
                }
                Some(Ok(Said::Leave)) => return member.leave().await,
                Some(Ok(Said::Hello(_))) => {
                    return Err(Fault::invalid("frame", "must not be hello again: open another stream"));
                }
                Some(Err(fault)) => return Err(fault),
                None => return Ok(()),
            },
            () = sleep_until(listen_from), if Instant::now() < listen_from => {}
            _ = views.changed() => {
                let seat = views.borrow_and_update().seats.get(&member.holder.node).cloned();
                member.sees(seat).await?;
            }
            _ = changes.changed() => member.still_admitted()?,
            () = tokio::time::sleep(plane.times.heartbeat) => member.still_admitted()?,
        }
    }
}

fn crowded() -> Fault {
    Fault::new(Reason::Overloaded, "too many nodes have joined this replica; join another")
}

/// A node that has its place, and what it was told.
struct Member<'a> {
    plane: &'a ControlPlane,
    caller: Principal,
    holder: Holder,
    told: &'a mpsc::Sender<Result<Told, Fault>>,
    /// `None` until the first set.
    leases: Option<Leases>,
    /// How far each of its shards was heard to have come.
    known: BTreeMap<(StoreName, Shard), Confirmed>,
}

impl Member<'_> {
    /// A new view of the fleet. Errors: the name is another process's by now.
    async fn sees(&mut self, seat: Option<crate::store::Seat>) -> Result<(), Fault> {
        let seat = seat.filter(|seat| seat.process == self.holder.process).ok_or_else(|| self.replaced())?;
        if self.leases.as_ref() == Some(&seat.leases) {
            return Ok(());
        }
        self.tell(Told::Leases(seat.leases.clone())).await?;
        self.leases = Some(seat.leases);
        match self.plane.store.confirmed(&self.holder).await {
            Ok(known) => self.known = known,
            Err(error) => self.not_written(&error),
        }
        Ok(())
    }

    async fn hear(&mut self, heartbeat: Heartbeat) -> Result<(), Fault> {
        match self.plane.store.hear(&self.holder).await {
            Ok(true) => {}
            Ok(false) => return Err(self.replaced()),
            Err(error) => {
                self.not_written(&error);
                return Ok(());
            }
        }
        self.confirm(heartbeat.held).await;
        self.refuse(heartbeat.refused).await
    }

    /// Keeps how far the owner has come. Only of what it was given: a node that was paused may tell of the past.
    async fn confirm(&mut self, held: Vec<Held>) {
        let mut news = BTreeMap::new();
        for held in held.into_iter().filter(|held| held.commit_seq > 0) {
            let key = (held.store, held.shard);
            if !self.owns(&key.0, key.1, held.epoch) {
                continue;
            }
            match judge_confirmation(self.known.get(&key).copied(), held.epoch, held.commit_seq) {
                Hearing::Nothing => {}
                Hearing::Rose(now) => drop(news.insert(key, now)),
                Hearing::Fell(now) => {
                    tracing::error!(
                        node.id = %self.holder.node, store = %key.0, shard.id = key.1.0, lease.epoch = now.epoch.get(),
                        commit_seq = now.commit_seq, fell_from = now.fell_from,
                        "the store counts fewer commits than it confirmed: was the store restored from a backup?"
                    );
                    news.insert(key, now);
                }
            }
        }
        if news.is_empty() {
            return;
        }
        match self.plane.store.confirm(&news).await {
            Ok(()) => self.known.extend(news),
            Err(error) => self.not_written(&error),
        }
    }

    /// Passes on what a store refused: the leader gives the shard again, above what the store holds.
    async fn refuse(&mut self, refused: Vec<Refused>) -> Result<(), Fault> {
        let mut believed = Vec::new();
        for refused in refused.into_iter().filter(|r| self.owns(&r.store, r.shard, r.epoch)) {
            if is_believable(refused.epoch, refused.stored) {
                believed.push((refused.store, refused.shard, refused.stored));
            } else {
                tracing::error!(
                    node.id = %self.holder.node, store = %refused.store, shard.id = refused.shard.0,
                    lease.epoch = refused.epoch.get(), stored_epoch = refused.stored.get(),
                    "a lease was refused for an epoch that cannot be: it is not given again"
                );
            }
        }
        if believed.is_empty() {
            return Ok(());
        }
        let (store, holder) = (self.plane.store.clone(), self.holder.clone());
        let note = async move {
            let mut fleet = store.begin_fleet().await?;
            fleet.refuse(&holder, &believed).await?;
            fleet.commit().await
        };
        // The node says it again with its next heartbeat.
        let _ = to_the_end(self.plane, note).await;
        Ok(())
    }

    /// Errors: the database does not answer. The shards then wait until the node counts as silent.
    async fn leave(&self) -> Result<(), Fault> {
        let (store, holder) = (self.plane.store.clone(), self.holder.clone());
        let note = async move {
            let mut fleet = store.begin_fleet().await?;
            fleet.leave(&holder.node, holder.process).await?;
            fleet.commit().await
        };
        to_the_end(self.plane, note).await
    }

    fn owns(&self, store: &StoreName, shard: Shard, epoch: LeaseEpoch) -> bool {
        let Some(leases) = &self.leases else { return false };
        let found = leases.binary_search_by(|(s, n, _)| (s, *n).cmp(&(store, shard)));
        found.is_ok_and(|at| leases.get(at).is_some_and(|(_, _, given)| *given == epoch))
    }

    async fn tell(&self, told: Told) -> Result<(), Fault> {
        self.told.send_timeout(Ok(told), TAKE_WITHIN).await.map_err(|_| {
            Fault::new(Reason::Overloaded, "this node takes what it is told too slowly; join again")
        })
    }

    fn still_admitted(&self) -> Result<(), Fault> {
        match self.plane.keys.still_admits(&self.caller, Millis::from(Utc::now())) {
            true => Ok(()),
            false => Err(Fault::new(Reason::CredentialInvalid, "the key of this stream is no longer good")),
        }
    }

    fn replaced(&self) -> Fault {
        enter::replaced(&self.holder.node)
    }

    fn not_written(&self, error: &crate::store::ControlStoreError) {
        let error: &dyn std::error::Error = error;
        tracing::warn!(node.id = %self.holder.node, error, "a heartbeat was heard and could not be written down");
    }
}
