//! What is true of the file: its owner's alone, and without any secret.

use orch8_proto::v1::{CreateKeyRequest, ListKeysRequest, Role};

use crate::sqlite::rig::{ADMIN, Home, Rig};

fn folder(home: &Home) -> &std::path::Path {
    match home {
        Home::Folder(folder) => folder.path(),
        Home::Url(url) => panic!("{url} is no folder"),
    }
}

#[tokio::test]
async fn the_secret_is_nowhere_but_in_its_answer() {
    let rig = Rig::start().await;
    let request =
        CreateKeyRequest { tenant_id: "acme".into(), roles: vec![Role::Worker.into()], ..Default::default() };
    let secret = rig.tenants(ADMIN).create_key(request).await.expect("made").into_inner().secret;
    let listed = rig.tenants(ADMIN).list_keys(ListKeysRequest::default()).await.expect("a page");
    assert!(!format!("{listed:?}").contains(&secret));
    assert!(!format!("{:?}", rig.plane).contains(&secret));
    let home = rig.end().await;
    for file in std::fs::read_dir(folder(&home)).expect("a folder") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("readable");
        assert!(!bytes.windows(secret.len()).any(|w| w == secret.as_bytes()));
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_database_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;

    let rig = Rig::start().await;
    rig.create_tenant("globex").await;
    for suffix in ["", "-wal", ".lock"] {
        let path = folder(&rig.home).join(format!("control.db{suffix}"));
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{path:?}");
    }
}
