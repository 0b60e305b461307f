//! A data plane follows: everything first, then what changes.

use std::time::Duration;

use chrono::Utc;
use orch8_model::{Fault, Millis, Reason};
use orch8_proto::identity::Principal;
use tokio::{sync::mpsc, time::timeout};

use super::store_fault;
use crate::{ControlPlane, store::Changes};

/// A follower that takes nothing for this long is cut; it resumes where it stood.
const TAKE_WITHIN: Duration = Duration::from_secs(30);
/// How often a stream looks whether its own key is still good, and past a bell that did not ring.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Who follows, from where.
#[derive(Clone, Debug)]
pub struct Following {
    pub caller: Principal,
    /// Token of the last group it took; 0 = none.
    pub token: u64,
}

/// What a follower is told at once.
#[derive(Debug)]
pub struct Group {
    pub full: bool,
    pub changes: Changes,
}

/// Sends groups until the follower leaves, stops taking, loses its key, or the control plane closes. What changes while
/// it takes its time comes in one group.
pub async fn follow(plane: ControlPlane, following: Following, groups: mpsc::Sender<Result<Group, Fault>>) {
    let stopped = plane.fleet.stopped();
    let why = tokio::select! {
        fault = tell(&plane, following, &groups) => fault,
        () = groups.closed() => return,
        () = stopped.cancelled() => Fault::new(Reason::Draining, "the control plane is shutting down"),
    };
    // A follower that still takes is told; one that does not is told by the end of its stream.
    let _ = timeout(LOOK_EVERY, groups.send(Err(why))).await;
}

/// Tells until something is wrong; answers what.
async fn tell(plane: &ControlPlane, who: Following, groups: &mpsc::Sender<Result<Group, Fault>>) -> Fault {
    let Some(_seat) = plane.fleet.seat_for_watching() else {
        return Fault::new(Reason::Overloaded, "too many data planes follow this control plane");
    };
    let mut changed = plane.fleet.changes();
    let mut after = match plane.store.newest_change().await {
        // A token that this database never gave out is of another one: everything is told.
        Ok(newest) => (who.token > 0 && who.token <= newest).then_some(who.token),
        Err(error) => return store_fault(error),
    };
    loop {
        changed.mark_unchanged();
        let changes = match plane.store.changes_after(after).await {
            Ok(changes) => changes,
            Err(error) => return store_fault(error),
        };
        let token = changes.token;
        if !plane.keys.still_admits(&who.caller, Millis::from(Utc::now())) {
            return Fault::new(Reason::CredentialInvalid, "the key of this stream is no longer good");
        }
        let news = after.is_none_or(|known| token > known);
        if news
            && let Err(cut) = hand_over(groups, Group { full: after.is_none(), changes }, TAKE_WITHIN).await
        {
            return cut;
        }
        after = Some(token);
        // Rung, or looked anyway: both lead to the same reading.
        let _ = timeout(LOOK_EVERY, changed.changed()).await;
    }
}

/// Errors: the follower took nothing for `within`, or left.
async fn hand_over(
    groups: &mpsc::Sender<Result<Group, Fault>>,
    group: Group,
    within: Duration,
) -> Result<(), Fault> {
    match groups.send_timeout(Ok(group), within).await {
        Ok(()) => Ok(()),
        Err(_) => {
            Err(Fault::new(Reason::Overloaded, "this data plane takes changes too slowly; watch again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_follower_that_takes_nothing_is_cut_and_one_that_takes_late_is_not() {
        let group = || Group { full: false, changes: Changes::default() };
        let (groups, mut follower) = mpsc::channel(1);
        let moment = Duration::from_millis(20);
        assert_eq!(hand_over(&groups, group(), moment).await, Ok(()), "there is room for one");
        let cut = hand_over(&groups, group(), moment).await.expect_err("the room is taken");
        assert_eq!(cut.reason, Reason::Overloaded);

        let takes_late = async {
            tokio::time::sleep(moment).await;
            follower.recv().await
        };
        let (handed, taken) = tokio::join!(hand_over(&groups, group(), moment * 50), takes_late);
        assert_eq!((handed, taken.is_some()), (Ok(()), true));
    }
}
