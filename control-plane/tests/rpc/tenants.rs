//! CreateTenant, GetTenant, ListTenants, WhoAmI.

use std::collections::BTreeSet;

use orch8_model::Reason;
use orch8_proto::v1::{
    CreateTenantRequest, GetTenantRequest, ListPlacementsRequest, ListTenantsRequest, Role, WhoAmIRequest,
};

use super::rig::{ADMIN, CLIENT, OPERATOR, Rig, field, refused};

#[tokio::test]
async fn a_tenant_is_made_once_and_stays_as_it_was_made() {
    let rig = Rig::start().await;
    let request = |name: &str| CreateTenantRequest { tenant_id: "globex".into(), display_name: name.into() };
    let mut client = rig.tenants(OPERATOR);
    let first = client.create_tenant(request("Globex")).await.expect("made").into_inner().tenant;
    let again = client.create_tenant(request("other")).await.expect("repeatable").into_inner().tenant;
    assert_eq!(first, again);

    let rig = rig.restart().await;
    let stored = rig.tenants(OPERATOR).get_tenant(GetTenantRequest { tenant_id: "globex".into() }).await;
    let stored = stored.expect("found").into_inner().tenant;
    assert_eq!(stored, first);
    assert_eq!(stored.expect("a tenant").display_name, "Globex");
}

#[tokio::test]
async fn sixteen_at_once_make_one_tenant() {
    let rig = Rig::start().await;
    let calls = (0..16).map(|n| {
        let mut client = rig.tenants(ADMIN);
        let request = CreateTenantRequest { tenant_id: "race".into(), display_name: n.to_string() };
        async move { client.create_tenant(request).await.expect("repeatable").into_inner().tenant }
    });
    let seen: Vec<_> = futures::future::join_all(calls).await;
    assert!(seen.iter().all(|tenant| *tenant == seen[0]));
}

#[tokio::test]
async fn a_hostile_field_is_named_and_nothing_is_stored() {
    let rig = Rig::start().await;
    let mut client = rig.tenants(OPERATOR);
    for (id, name, reason, at) in [
        ("", "", "INVALID_FIELD", "tenant_id"),
        ("  ", "", "INVALID_FIELD", "tenant_id"),
        ("a\0b", "", "INVALID_FIELD", "tenant_id"),
        ("a\nb", "", "INVALID_FIELD", "tenant_id"),
        (&"字".repeat(86), "", "TOO_LARGE", "tenant_id"),
        ("fine", &"x".repeat(257), "TOO_LARGE", "display_name"),
        ("fine", "\u{1b}[2J", "INVALID_FIELD", "display_name"),
    ] {
        let request = CreateTenantRequest { tenant_id: id.to_owned(), display_name: name.to_owned() };
        assert_eq!(field(client.create_tenant(request).await), (reason.into(), at.into()), "{id:?} {name:?}");
    }
    let missing = client.get_tenant(GetTenantRequest { tenant_id: "fine".into() }).await;
    assert_eq!(refused(missing).known(), Some(Reason::NotFound));
    let longest = "字".repeat(85);
    assert_eq!(rig.create_tenant(&longest).await.tenant_id, longest);
    for odd in ["../x", "%2f", "a' OR 1=1 --", "e\u{301}", "\u{e9}", "\u{202e}x"] {
        assert_eq!(rig.create_tenant(odd).await.tenant_id, odd);
    }
}

#[tokio::test]
async fn pages_are_the_tenants_each_once_also_while_more_are_made() {
    let rig = Rig::start().await;
    let mut wanted = BTreeSet::from(["acme".to_owned()]);
    for n in 0..60 {
        wanted.insert(rig.create_tenant(&format!("t-{n:03}")).await.tenant_id);
    }
    let mut client = rig.tenants(OPERATOR);
    let (mut seen, mut token) = (Vec::new(), String::new());
    for round in 0.. {
        let request = ListTenantsRequest { page_size: 7, page_token: token };
        let page = client.list_tenants(request).await.expect("a page").into_inner();
        assert!(page.tenants.len() <= 7);
        seen.extend(page.tenants.into_iter().map(|t| t.tenant_id));
        if round == 3 {
            // Before and behind the place where the pages stand.
            rig.create_tenant("a-late").await;
            rig.create_tenant("z-late").await;
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let once: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(once.len(), seen.len(), "none twice");
    assert!(wanted.is_subset(&once), "none lost");
    assert!(seen.is_sorted());
}

#[tokio::test]
async fn a_page_size_is_clamped_or_refused_and_a_token_is_bound_to_its_query() {
    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    let mut client = rig.tenants(ADMIN);
    for (page_size, rows) in [(0, 2), (1, 1), (1_000_000_000, 2)] {
        let request = ListTenantsRequest { page_size, page_token: String::new() };
        assert_eq!(client.list_tenants(request).await.expect("a page").into_inner().tenants.len(), rows);
    }
    let negative = ListTenantsRequest { page_size: -1, page_token: String::new() };
    assert_eq!(field(client.list_tenants(negative).await), ("INVALID_FIELD".into(), "page_size".into()));

    let request = ListTenantsRequest { page_size: 1, page_token: String::new() };
    let token = client.list_tenants(request).await.expect("a page").into_inner().next_page_token;
    for bad in ["garbage", "!!", &token[..token.len() - 1], &format!("{token}A"), &"A".repeat(100_000)] {
        let request = ListTenantsRequest { page_size: 1, page_token: bad.to_owned() };
        let failed = field(client.list_tenants(request).await);
        assert_eq!(failed, ("BAD_PAGE_TOKEN".into(), "page_token".into()), "{:.20}", bad);
    }
    let request = ListPlacementsRequest { page_size: 1, page_token: token };
    let failed = field(rig.placements(ADMIN).list_placements(request).await);
    assert_eq!(failed, ("BAD_PAGE_TOKEN".into(), "page_token".into()));
}

#[tokio::test]
async fn everybody_may_ask_who_he_is() {
    let rig = Rig::start().await;
    let me = rig.tenants(CLIENT).who_am_i(WhoAmIRequest {}).await.expect("answered").into_inner();
    assert_eq!((me.tenant_id.as_str(), me.roles), ("acme", vec![i32::from(Role::Client)]));
    assert_eq!(me.key_id, orch8_seal::sha256(CLIENT.as_bytes()).hex()[..16]);
    let me = rig.tenants(OPERATOR).who_am_i(WhoAmIRequest {}).await.expect("answered").into_inner();
    assert_eq!((me.tenant_id.as_str(), me.roles), ("", vec![i32::from(Role::Operator)]));
}

#[tokio::test]
async fn a_tenants_own_key_cannot_look_for_other_tenants() {
    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    let ask = |id: &str| {
        let mut client = rig.tenants(CLIENT);
        let request = GetTenantRequest { tenant_id: id.to_owned() };
        async move { client.get_tenant(request).await.expect_err("refused") }
    };
    let (foreign, missing, own) = (ask("globex").await, ask("nobody").await, ask("acme").await);
    for other in [&missing, &own] {
        assert_eq!(
            (foreign.code(), foreign.message(), foreign.details()),
            (other.code(), other.message(), other.details())
        );
    }
}
