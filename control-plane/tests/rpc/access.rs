//! RPC × credential: exactly the cells of the table are open.

use orch8_model::{Millis, Reason, Role, Roles};
use orch8_proto::{
    client::{Code, Failure},
    identity::{Grant, access},
};

use super::rig::{CLIENT, Rig};

const SERVICES: [&str; 3] =
    ["/orch8.v1.TenantService/", "/orch8.v1.PlacementService/", "/orch8.v1.FleetService/"];

fn ours() -> impl Iterator<Item = (&'static str, access::Access)> {
    access::TABLE.iter().copied().filter(|(path, _)| SERVICES.iter().any(|s| path.starts_with(s)))
}

#[tokio::test]
async fn without_a_good_key_every_rpc_answers_the_same_unauthenticated() {
    let rig = Rig::start().await;
    let gone = Grant {
        tenant: None,
        roles: Role::ALL.iter().copied().collect(),
        expires_at: Some(Millis(1)),
        revoked: false,
    };
    rig.plane.keys().update([(orch8_seal::sha256(b"expired"), gone)]);
    let mut seen = None;
    for (path, _) in ours() {
        for key in [None, Some("wrong"), Some("expired"), Some("")] {
            let status = rig.knock(path, key).await.expect_err("refused");
            assert_eq!(status.code(), Code::Unauthenticated, "{path} {key:?}");
            let bytes = (status.message().to_owned(), status.details().to_vec());
            assert_eq!(*seen.get_or_insert(bytes.clone()), bytes, "{path} {key:?}");
        }
    }
    assert!(seen.is_some());
}

#[tokio::test]
async fn each_role_opens_exactly_the_cells_of_the_table() {
    let rig = Rig::start().await;
    for role in Role::ALL {
        let roles: Roles = [*role].into_iter().collect();
        let grant = Grant { tenant: None, roles, expires_at: None, revoked: false };
        rig.plane.keys().update([(orch8_seal::sha256(role.as_str().as_bytes()), grant)]);
        for (path, access) in ours() {
            let answer = rig.knock(path, Some(role.as_str())).await;
            let closed =
                answer.is_err_and(|status| Failure::from(status).known() == Some(Reason::RoleMissing));
            assert_eq!(!closed, access.admits(roles), "{path} as {role}");
        }
    }
}

#[tokio::test]
async fn an_rpc_that_does_not_exist_is_unimplemented_only_for_those_with_a_key() {
    let rig = Rig::start().await;
    let path = "/orch8.v1.TenantService/DropEverything";
    assert_eq!(rig.knock(path, None).await.expect_err("refused").code(), Code::Unauthenticated);
    assert_eq!(rig.knock(path, Some(CLIENT)).await.expect_err("refused").code(), Code::Unimplemented);
}
