//! Tenants, keys, placements, changes.

use orch8_model::TenantId;

use super::*;
use crate::store::keys::REQUEST_ID_MS;

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).expect("a name")
}

fn placement(of: &str, epoch: u64) -> Placement {
    let epoch = PlacementEpoch::new(epoch).expect("small");
    Placement { tenant: tenant(of), store: store_name("main"), epoch, updated_at: Millis(epoch.get() as i64) }
}

on_both! {
    async fn a_request_id_is_remembered_for_a_day(rig) {
        let store = rig.store;
        let first = key("a", 0, None, Some("r"));
        assert_eq!(store.create_key(&first).await.expect("answers"), KeyCreated::New);
        let within = store.create_key(&key("b", REQUEST_ID_MS - 1, None, Some("r"))).await.expect("answers");
        assert_eq!(within, KeyCreated::Taken(first.id()));
        let after = store.create_key(&key("b", REQUEST_ID_MS, None, Some("r"))).await.expect("answers");
        assert_eq!(after, KeyCreated::New);
        let same = store.create_key(&key("a", REQUEST_ID_MS, None, None)).await.expect("answers");
        assert_eq!(same, KeyCreated::Taken(first.id()), "a secret is one key");
    }

    async fn changes_are_as_many_as_things_and_their_numbers_only_rise(rig) {
        let first = key("a", 0, None, None);
        rig.store.create_key(&first).await.expect("answers");
        let made = rig.store.newest_change().await.expect("answers");
        assert!(matches!(rig.store.revoke_key(&first.id(), Millis(5)).await, Ok(KeyRevoked::Ended(_))));
        let ended = rig.store.newest_change().await.expect("answers");
        assert!(ended > made);
        assert_eq!(rig.count("SELECT count(*) AS n FROM changes").await, 1);
        let news = rig.store.changes_after(Some(made)).await.expect("answers");
        assert_eq!((news.keys.len(), news.keys[0].revoked_at, news.token), (1, Some(Millis(5)), ended));
        assert!(matches!(rig.store.revoke_key(&first.id(), Millis(9)).await, Ok(KeyRevoked::Ended(key))
            if key.revoked_at == Some(Millis(5))), "the first revocation stands");
        assert_eq!(rig.store.newest_change().await.expect("answers"), ended, "and is no news");
        let missing = rig.store.revoke_key("0000000000000000", Millis(9)).await.expect("answers");
        assert_eq!(missing, KeyRevoked::Missing);
    }

    async fn a_key_that_expired_makes_room(rig) {
        for n in 0..LIVE_KEYS_MAX {
            let made = rig.store.create_key(&key(&n.to_string(), 0, Some(100), None)).await;
            assert_eq!(made.expect("answers"), KeyCreated::New);
        }
        assert_eq!(rig.store.create_key(&key("x", 99, None, None)).await.expect("answers"), KeyCreated::Full);
        let of_a_tenant = ApiKey { tenant: Some(tenant("acme")), ..key("t", 99, None, None) };
        assert_eq!(rig.store.create_key(&of_a_tenant).await.expect("answers"), KeyCreated::New);
        assert_eq!(rig.store.create_key(&key("x", 100, None, None)).await.expect("answers"), KeyCreated::New);
    }

    async fn a_first_key_is_made_once_and_again_when_the_first_has_ended(rig) {
        let operator = |secret: &str, at| ApiKey {
            roles: [Role::Operator].into_iter().collect(), ..key(secret, at, None, None)
        };
        rig.store.create_key(&key("a node's", 0, None, None)).await.expect("answers");
        let racing = (0..8).map(|n| {
            let (store, key) = (rig.store.clone(), operator(&n.to_string(), 1));
            async move { store.create_first_key(&key, Role::Operator).await.expect("answers") }
        });
        let answers = futures::future::join_all(racing).await;
        assert_eq!(answers.iter().filter(|answer| **answer == FirstKey::Made).count(), 1, "{answers:?}");
        let FirstKey::There(id) = rig.store.create_first_key(&operator("x", 2), Role::Operator).await.expect("answers")
        else { panic!("made twice") };
        rig.store.revoke_key(&id, Millis(3)).await.expect("answers");
        let again = rig.store.create_first_key(&operator("x", 4), Role::Operator).await.expect("answers");
        assert_eq!(again, FirstKey::Made);
    }

    async fn an_epoch_of_a_placement_only_rises_whoever_writes(rig) {
        let writers = (0..20_u64).map(|n| {
            let store = rig.store.clone();
            async move { store.advance_placement(placement("acme", 1 + n * 7 % 20)).await.expect("answers") }
        });
        let answers = futures::future::join_all(writers).await;
        assert!(answers.contains(&Advanced::Won));
        let stored = rig.store.placement(&tenant("acme")).await.expect("answers").expect("placed");
        assert_eq!(stored, placement("acme", 20), "of any order the highest stays");
        let stale = rig.store.advance_placement(placement("acme", 20)).await.expect("answers");
        assert_eq!(stale, Advanced::Stale(stored));
    }

    async fn whoever_read_up_to_a_number_has_missed_nothing_below_it(rig) {
        let writing = (0..4).map(|writer| {
            let store = rig.store.clone();
            tokio::spawn(async move {
                for n in 0..25 {
                    store.advance_placement(placement(&format!("{writer}-{n}"), 1)).await.expect("answers");
                }
            })
        });
        let writing: Vec<_> = writing.collect();
        let (mut token, mut seen) = (0, std::collections::BTreeSet::new());
        loop {
            let all_written = writing.iter().all(tokio::task::JoinHandle::is_finished);
            let news = rig.store.changes_after(Some(token)).await.expect("answers");
            seen.extend(news.placements.into_iter().map(|p| p.tenant));
            let nothing_new = news.token == token;
            token = news.token;
            if all_written && nothing_new {
                break;
            }
        }
        assert_eq!(seen.len(), 100, "a change below the token was missed");
        assert_eq!(token, 100);
    }

    async fn names_are_ordered_byte_for_byte(rig) {
        let names = ["B", "a", "ab", "a b", "a-b", "aB", "Ä", "字"];
        for name in names {
            let made = Tenant { id: tenant(name), display_name: String::new(), created_at: Millis(0) };
            rig.store.create_tenant(made).await.expect("made");
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = rig.store.tenants(after.as_ref(), 3).await.expect("a page");
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            seen.extend(page.into_iter().map(|t| t.id.as_str().to_owned()));
        }
        let mut wanted = names.map(str::to_owned).to_vec();
        wanted.sort();
        assert_eq!(seen, wanted);
    }
}
