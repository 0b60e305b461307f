//! The door of the fleet: is the name free for this process, and does it serve the stores that are meant?

use orch8_authority::{OfferProblem, StoreShape, judge_offer};
use orch8_model::{Fault, NodeName, Reason, StoreName};

use super::{Hello, to_the_end};
use crate::{
    ControlPlane,
    fleet::Fleet,
    store::{ControlStore, ControlStoreError, Joining},
};

/// What came of a hello.
enum Entered {
    In,
    /// The name was taken from this process by another one that lives.
    Replaced,
    Offers(StoreName, StoreShape, OfferProblem),
    /// There are [`Fleet::NODES_MAX`] nodes.
    Full,
}

/// Gives the node its name, and each store its number of shards if nobody has told it before.
///
/// Errors: `STORE_UNSUPPORTED` with the store and what to type, `STALE_LEASE`, `QUOTA_EXCEEDED`.
pub(super) async fn enter(plane: &ControlPlane, hello: Hello) -> Result<(), Fault> {
    let node = hello.node.clone();
    let (store, give_up_ms) = (plane.store.clone(), plane.times.give_up_after.as_millis());
    match to_the_end(plane, async move { write(&store, hello, give_up_ms).await }).await? {
        Entered::In => Ok(()),
        Entered::Replaced => Err(replaced(&node)),
        Entered::Offers(name, offered, problem) => Err(refused(&name, offered, problem)),
        Entered::Full => {
            let (limit, text) = (Fleet::NODES_MAX, "nodes may be known at once");
            Err(Fault::new(Reason::QuotaExceeded, format!("at most {limit} {text}")).with("limit", limit))
        }
    }
}

async fn write(store: &ControlStore, hello: Hello, give_up_ms: u128) -> Result<Entered, ControlStoreError> {
    let mut fleet = store.begin_fleet().await?;
    let successor = fleet.successor_heard(&hello.node, hello.process).await?;
    if successor.is_some_and(|silent_ms| u128::from(silent_ms.unsigned_abs()) <= give_up_ms) {
        return Ok(Entered::Replaced);
    }
    let names: Vec<StoreName> = hello.stores.iter().map(|(name, _)| name.clone()).collect();
    let known = fleet.stores(&names).await?;
    for (name, offered) in &hello.stores {
        let registered = known.iter().find(|store| store.name == *name).map(|store| store.shape);
        if let Err(problem) = judge_offer(registered, *offered) {
            return Ok(Entered::Offers(name.clone(), *offered, problem));
        }
        fleet.learn(name, *offered).await?;
    }
    if fleet.others(&hello.node).await? >= Fleet::NODES_MAX as i64 {
        return Ok(Entered::Full);
    }
    let joining = Joining { node: hello.node, process: hello.process, address: hello.address, stores: names };
    fleet.enter(&joining).await?;
    fleet.commit().await?;
    Ok(Entered::In)
}

pub(super) fn replaced(node: &NodeName) -> Fault {
    let text = format!("the name {node} is another process's now, and its shards are too");
    Fault::new(Reason::StaleLease, text).with("node_id", node)
}

fn refused(name: &StoreName, offered: StoreShape, problem: OfferProblem) -> Fault {
    let advice = match problem {
        OfferProblem::Unknown => {
            format!("; register it: orch8 store register {name} --kind {}", offered.kind)
        }
        OfferProblem::Kind { .. } | OfferProblem::Shards { .. } => {
            "; compare with: orch8 store list".to_owned()
        }
    };
    Fault::field(Reason::StoreUnsupported, "hello.stores", format_args!("{name} {problem}{advice}"))
        .with("store", name)
}
