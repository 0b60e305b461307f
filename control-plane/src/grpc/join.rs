//! Frames of `Join`: what a node says is parsed here, once.

use std::collections::BTreeSet;

use futures::{Stream, StreamExt as _};
use orch8_authority::StoreShape;
use orch8_model::{Fault, LeaseEpoch, ProcessId, Shard, StoreName};
use orch8_proto::{
    door, status,
    v1::{self, join_request::Frame as Says, join_response::Frame as IsTold},
};
use tonic::{Streaming, codegen::http::Uri};

use super::{fleet::STORES_MAX, placements::store_kind};
use crate::app::{Heartbeat, Held, Hello, Refused, Said, Told};

/// Shards of one store; a store is made with 64 or 4.
const SHARDS_MAX: u32 = 1_024;
/// Shards of all stores of one node: its whole set fits into one message, whatever the names.
const SHARDS_OF_NODE_MAX: usize = 16_384;
/// Bytes of an address.
const ADDRESS_BYTES_MAX: usize = 512;

/// What a node says, until its stream ends.
pub(super) fn said(
    frames: Streaming<v1::JoinRequest>,
) -> impl Stream<Item = Result<Said, Fault>> + Send + Unpin + 'static {
    let parsed = frames.map(|frame| match frame {
        Ok(frame) => Some(parse(frame)),
        // A stream that broke is nobody's fault: it has ended.
        Err(broken) => status::unreadable_frame(&broken).map(Err),
    });
    Box::pin(parsed.take_while(|frame| std::future::ready(frame.is_some())).filter_map(std::future::ready))
}

/// What it is told.
pub(super) fn told(told: Told) -> v1::JoinResponse {
    let frame = match told {
        Told::Welcome(times) => IsTold::Welcome(v1::JoinWelcome {
            heartbeat_interval: Some(door::wire_duration(times.heartbeat)),
            give_up_after: Some(door::wire_duration(times.give_up_after)),
        }),
        Told::Leases(leases) => {
            let lease = |(store, shard, epoch): &(StoreName, Shard, LeaseEpoch)| v1::ShardLease {
                store: store.to_string(),
                shard: shard.0.into(),
                lease_epoch: epoch.get(),
            };
            IsTold::Leases(v1::ShardLeases { leases: leases.iter().map(lease).collect() })
        }
    };
    v1::JoinResponse { frame: Some(frame) }
}

fn parse(frame: v1::JoinRequest) -> Result<Said, Fault> {
    Ok(match door::required("frame", frame.frame)? {
        Says::Hello(r) => Said::Hello(hello(r)?),
        Says::Heartbeat(r) => Said::Heartbeat(heartbeat(r)?),
        Says::Leave(v1::JoinLeave {}) => Said::Leave,
    })
}

fn hello(r: v1::JoinHello) -> Result<Hello, Fault> {
    let offers = door::items("hello.stores", r.stores, STORES_MAX)?;
    let stores: Vec<_> = offers.into_iter().map(offer).collect::<Result<_, Fault>>()?;
    let names: BTreeSet<_> = stores.iter().map(|(name, _)| name).collect();
    if names.len() < stores.len() {
        return Err(Fault::invalid("hello.stores", "must name each store once"));
    }
    let shards: usize = stores.iter().map(|(_, shape)| shape.shard_count as usize).sum();
    if shards > SHARDS_OF_NODE_MAX {
        return Err(Fault::too_large("hello.stores", shards, SHARDS_OF_NODE_MAX, "shards"));
    }
    Ok(Hello {
        node: door::name("hello.node_id", r.node_id)?,
        process: door::id("hello.process_id", &r.process_id, ProcessId)?,
        address: address("hello.address", r.address)?,
        stores,
    })
}

fn offer(r: v1::StoreOffer) -> Result<(StoreName, StoreShape), Fault> {
    let name = door::name("hello.stores.name", r.name)?;
    let kind = store_kind("hello.stores.kind", r.kind)?;
    if !(1..=SHARDS_MAX).contains(&r.shard_count) {
        let text = format_args!("must lie between 1 and {SHARDS_MAX}");
        return Err(Fault::invalid("hello.stores.shard_count", text));
    }
    Ok((name, StoreShape { kind, shard_count: r.shard_count }))
}

/// `http://host:port` or `https://host:port`, and nothing behind it: workers are sent there.
fn address(field: &str, text: String) -> Result<String, Fault> {
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(Fault::too_large(field, text.len(), ADDRESS_BYTES_MAX, "bytes"));
    }
    let well_formed = text.parse::<Uri>().is_ok_and(|uri| {
        let host = uri.host().is_some_and(|host| !host.is_empty());
        let bare = uri.authority().is_some_and(|a| !a.as_str().contains('@')) && uri.query().is_none();
        matches!(uri.scheme_str(), Some("http" | "https"))
            && host
            && bare
            && uri.port_u16().is_some_and(|port| port > 0)
            && uri.path() == "/"
    });
    let bare = !text.ends_with('/') && !text.contains('#');
    if well_formed && bare {
        Ok(text)
    } else {
        Err(Fault::invalid(field, "must be http://host:port or https://host:port"))
    }
}

fn heartbeat(r: v1::JoinHeartbeat) -> Result<Heartbeat, Fault> {
    let held = door::items("heartbeat.held", r.held, SHARDS_OF_NODE_MAX)?;
    let refused = door::items("heartbeat.refused", r.refused, SHARDS_OF_NODE_MAX)?;
    Ok(Heartbeat {
        held: held.into_iter().map(held_shard).collect::<Result<_, Fault>>()?,
        refused: refused.into_iter().map(refused_shard).collect::<Result<_, Fault>>()?,
    })
}

fn held_shard(r: v1::HeldShard) -> Result<Held, Fault> {
    Ok(Held {
        store: door::name("heartbeat.held.store", r.store)?,
        shard: shard("heartbeat.held.shard", r.shard)?,
        epoch: epoch("heartbeat.held.lease_epoch", r.lease_epoch)?,
        commit_seq: number("heartbeat.held.commit_seq", r.commit_seq)?,
    })
}

fn refused_shard(r: v1::RefusedShard) -> Result<Refused, Fault> {
    Ok(Refused {
        store: door::name("heartbeat.refused.store", r.store)?,
        shard: shard("heartbeat.refused.shard", r.shard)?,
        epoch: epoch("heartbeat.refused.lease_epoch", r.lease_epoch)?,
        stored: epoch("heartbeat.refused.stored_epoch", r.stored_epoch)?,
    })
}

fn shard(field: &str, number: u32) -> Result<Shard, Fault> {
    let known = u16::try_from(number).ok().filter(|_| number < SHARDS_MAX);
    known.map(Shard).ok_or_else(|| Fault::invalid(field, format_args!("must be below {SHARDS_MAX}")))
}

fn epoch(field: &str, value: u64) -> Result<LeaseEpoch, Fault> {
    let epoch = LeaseEpoch::new(value);
    epoch.ok_or_else(|| Fault::invalid(field, format_args!("must be at most {}", LeaseEpoch::MAX)))
}

/// What a signed column holds.
fn number(field: &str, value: u64) -> Result<u64, Fault> {
    match i64::try_from(value) {
        Ok(_) => Ok(value),
        Err(_) => Err(Fault::invalid(field, format_args!("must be at most {}", i64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (text, good) in [
            ("http://10.0.0.1:7233", true),
            ("https://node-1.example.org:443", true),
            ("http://[::1]:7233", true),
            ("http://node-1", false),
            ("http://node-1:0", false),
            ("http://node-1:99999", false),
            ("http://node-1:7233/", false),
            ("http://node-1:7233/path", false),
            ("http://node-1:7233?x=1", false),
            ("http://node-1:7233#x", false),
            ("http://user:secret@node-1:7233", false),
            ("ftp://node-1:7233", false),
            ("node-1:7233", false),
            ("http://:7233", false),
            ("http://a b:1", false),
            ("http://a\n:1", false),
            ("", false),
        ] {
            assert_eq!(address("address", text.to_owned()).is_ok(), good, "{text:?}");
        }
        let long = format!("http://{}:1", "a".repeat(ADDRESS_BYTES_MAX));
        assert_eq!(address("address", long).expect_err("long").reason, orch8_model::Reason::TooLarge);
    }
}
