//! Messages to instances.

use orch8_data_plane::store::{FenceMode, Sent, Store, TenantHandle, TurnAnswer, TurnWrite};
use orch8_engine::SignalKind;
use orch8_model::limits::{JSON_DEPTH_MAX, PENDING_SIGNALS_MAX};
use serde_json::{Value, json};

use crate::ground::*;

crate::on_every_store! {
    every_kind_of_message_is_read_back_in_order,
    a_signal_id_is_stored_once_per_instance_even_after_the_end,
    missing_and_foreign_are_one,
    an_inbox_takes_ten_thousand_and_no_more,
    a_number_of_mail_is_never_used_twice,
    a_tenant_without_an_open_fence_sends_nothing,
    the_deepest_payload_is_read_back,
    mail_of_one_instance_comes_in_parts_that_can_be_absorbed,
    a_message_and_an_end_never_miss_each_other,
    a_reader_that_goes_on_where_it_was_misses_nothing,
}

async fn send(store: &Store, tenant: &TenantHandle, message: orch8_data_plane::store::Message) -> Sent {
    store.send(tenant, message).await.expect("a send").expect("an open fence")
}

async fn every_kind_of_message_is_read_back_in_order(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    let lease = lease_of(store, &leases, id);
    let patch = json!({"z": 1, "a": {"esc": "\n\u{1}", "big": 18_446_744_073_709_551_615_u64, "f": 1.0}});
    let Value::Object(object) = patch.clone() else { unreachable!() };
    let kinds = [
        SignalKind::Pause,
        SignalKind::Custom { name: "human_input:ask".to_owned(), payload: json!([null, "é", 1.5]) },
        SignalKind::UpdateContext(object),
        SignalKind::Cancel { reason: "so\nit ends".to_owned() },
        SignalKind::Resume,
    ];
    for (n, kind) in kinds.iter().enumerate() {
        assert_eq!(send(store, &acme, message(id, &n.to_string(), kind.clone())).await, Sent::Stored);
    }
    let mail = store.mail(lease, 0, 99).await.expect("mail");
    assert!(mail.is_sorted_by(|a, b| a.seq < b.seq));
    assert!(mail.iter().all(|m| m.instance == id && m.tenant == *acme.tenant()));
    assert_eq!(mail.iter().map(|m| m.body.kind.clone()).collect::<Vec<_>>(), kinds);
    assert_eq!(mail[2].body.signal.as_str(), "2");
    assert_eq!(store.mail_of(id).await.expect("mail"), mail);
    assert_eq!(store.mail(lease, mail[1].seq, 2).await.expect("mail"), mail[2..4]);
    let elsewhere = leases.iter().find(|l| l.shard != lease.shard).expect("several shards");
    assert_eq!(store.mail(*elsewhere, 0, 99).await.expect("mail"), []);
}

async fn a_signal_id_is_stored_once_per_instance_even_after_the_end(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let (id, other) = (running(store, &acme, &leases).await, running(store, &acme, &leases).await);
    assert_eq!(send(store, &acme, message(id, "s", SignalKind::Pause)).await, Sent::Stored);
    assert_eq!(send(store, &acme, message(id, "s", SignalKind::Resume)).await, Sent::Duplicate);
    assert_eq!(send(store, &acme, message(other, "s", SignalKind::Pause)).await, Sent::Stored);
    let mail = store.mail_of(id).await.expect("mail").iter().map(|m| m.seq).collect();
    let last = TurnWrite { mail, ..closing(store, &acme, id, 1) };
    assert_eq!(commit(store, &leases, vec![last]).await, [TurnAnswer::Done]);
    assert_eq!(send(store, &acme, message(id, "s", SignalKind::Pause)).await, Sent::Duplicate);
    assert_eq!(send(store, &acme, message(id, "t", SignalKind::Pause)).await, Sent::Terminal);
    assert_eq!(store.mail_of(id).await.expect("mail"), []);
}

async fn missing_and_foreign_are_one(store: &Store) {
    let (acme, other) = (tenant(store, "acme").await, tenant(store, "other").await);
    let id = born(store, &acme).await;
    assert_eq!(send(store, &other, message(id, "s", SignalKind::Pause)).await, Sent::Missing);
    assert_eq!(send(store, &other, message(fresh_id(), "s", SignalKind::Pause)).await, Sent::Missing);
    assert!(store.instance(&other, id).await.expect("a read").is_none());
    assert!(store.load_one(&other, id).await.expect("a read").is_none());
    assert!(store.turns(&other, id, None, 9).await.expect("a read").is_empty());
    assert_eq!(send(store, &acme, message(id, "s", SignalKind::Pause)).await, Sent::Stored);
}

async fn an_inbox_takes_ten_thousand_and_no_more(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let (id, neighbour) = (running(store, &acme, &leases).await, running(store, &acme, &leases).await);
    let sends: Vec<_> = (0..PENDING_SIGNALS_MAX)
        .map(|n| {
            let (store, acme) = (store.clone(), acme.clone());
            tokio::spawn(
                async move { send(&store, &acme, message(id, &n.to_string(), SignalKind::Pause)).await },
            )
        })
        .collect();
    for sent in sends {
        assert_eq!(sent.await.expect("no panic"), Sent::Stored);
    }
    assert_eq!(send(store, &acme, message(id, "more", SignalKind::Pause)).await, Sent::Full);
    assert_eq!(send(store, &acme, message(id, "7", SignalKind::Pause)).await, Sent::Duplicate);
    assert_eq!(send(store, &acme, message(neighbour, "s", SignalKind::Pause)).await, Sent::Stored);
    let one = store.mail_of(id).await.expect("mail")[0].seq;
    let absorbing = TurnWrite { mail: vec![one], ..turn(store, &acme, id, 1) };
    assert_eq!(commit(store, &leases, vec![absorbing]).await, [TurnAnswer::Done]);
    assert_eq!(send(store, &acme, message(id, "more", SignalKind::Pause)).await, Sent::Stored, "not burnt");
}

async fn a_number_of_mail_is_never_used_twice(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    let mut last = 0;
    for n in 1..5 {
        send(store, &acme, message(id, &n.to_string(), SignalKind::Pause)).await;
        let seq = store.mail_of(id).await.expect("mail")[0].seq;
        assert!(seq > last, "a cursor at {last} would miss {seq}");
        last = seq;
        commit(store, &leases, vec![TurnWrite { mail: vec![seq], ..turn(store, &acme, id, n) }]).await;
    }
}

async fn a_tenant_without_an_open_fence_sends_nothing(store: &Store) {
    let acme = tenant(store, "acme").await;
    let id = born(store, &acme).await;
    fence(store, "acme", 1, FenceMode::Draining).await;
    assert_eq!(store.send(&acme, message(id, "s", SignalKind::Pause)).await.expect("an answer"), None);
    assert_eq!(store.mail_of(id).await.expect("mail"), []);
}

async fn the_deepest_payload_is_read_back(store: &Store) {
    let acme = tenant(store, "acme").await;
    let id = born(store, &acme).await;
    let deep = (0..JSON_DEPTH_MAX).fold(json!(0), |inner, _| json!([inner]));
    let kind = SignalKind::Custom { name: "deep".to_owned(), payload: deep };
    assert_eq!(send(store, &acme, message(id, "s", kind.clone())).await, Sent::Stored);
    assert_eq!(store.mail_of(id).await.expect("mail")[0].body.kind, kind);
}

async fn mail_of_one_instance_comes_in_parts_that_can_be_absorbed(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let id = running(store, &acme, &leases).await;
    for n in 0..300 {
        send(store, &acme, message(id, &n.to_string(), SignalKind::Pause)).await;
    }
    let (mut absorbed, mut turn_no) = (0, 1);
    loop {
        let mail: Vec<i64> = store.mail_of(id).await.expect("mail").iter().map(|m| m.seq).collect();
        absorbed += mail.len();
        let last = TurnWrite { mail: mail.clone(), ..closing(store, &acme, id, turn_no) };
        match commit(store, &leases, vec![last]).await[..] {
            [TurnAnswer::Done] => break,
            [TurnAnswer::HasMail] => {
                let part = TurnWrite { mail, ..turn(store, &acme, id, turn_no) };
                assert_eq!(commit(store, &leases, vec![part]).await, [TurnAnswer::Done]);
                turn_no += 1;
            }
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(absorbed, 300);
}

async fn a_message_and_an_end_never_miss_each_other(store: &Store) {
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    for round in 0..40 {
        let id = running(store, &acme, &leases).await;
        let senders: Vec<_> = (0..4)
            .map(|n: u32| {
                let (store, acme) = (store.clone(), acme.clone());
                tokio::spawn(async move {
                    send(&store, &acme, message(id, &n.to_string(), SignalKind::Pause)).await
                })
            })
            .collect();
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        let mut absorbed = 0;
        loop {
            let mail: Vec<i64> = store.mail_of(id).await.expect("mail").iter().map(|m| m.seq).collect();
            let last = TurnWrite { mail: mail.clone(), ..closing(store, &acme, id, 1) };
            match commit(store, &leases, vec![last]).await[..] {
                [TurnAnswer::Done] => {
                    absorbed += mail.len();
                    break;
                }
                [TurnAnswer::HasMail] => {}
                ref other => panic!("{other:?}"),
            }
        }
        let mut stored = 0;
        for sender in senders {
            match sender.await.expect("no panic") {
                Sent::Stored => stored += 1,
                Sent::Terminal => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(stored, absorbed, "whatever was accepted was read by the turn that closed");
        assert_eq!(store.mail_of(id).await.expect("mail"), []);
    }
}

async fn a_reader_that_goes_on_where_it_was_misses_nothing(store: &Store) {
    const EACH: usize = 60;
    let acme = tenant(store, "acme").await;
    let leases = leases(store, 1).await;
    let lease = leases[0];
    let ids: Vec<_> = (0..8).map(|_| id_in(store, lease.shard)).collect();
    start(store, &acme, ids.iter().copied().map(birth).collect()).await;
    let senders: Vec<_> = ids
        .iter()
        .map(|id| {
            let (store, acme, id) = (store.clone(), acme.clone(), *id);
            tokio::spawn(async move {
                for n in 0..EACH {
                    send(&store, &acme, message(id, &n.to_string(), SignalKind::Pause)).await;
                }
            })
        })
        .collect();
    let (mut after, mut seen) = (0, 0);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while seen < EACH * ids.len() {
        let page = store.mail(lease, after, 7).await.expect("mail");
        after = page.last().map_or(after, |m| m.seq);
        seen += page.len();
        assert!(std::time::Instant::now() < deadline, "{seen} seen, the cursor stands at {after}");
    }
    for sender in senders {
        sender.await.expect("no panic");
    }
}
