//! A control plane on a database of its own, behind a real listener, and clients with keys.

// The suite on each database uses all of it together, and neither the files of one kind alone.
#![allow(dead_code)]

use std::time::Duration;

use orch8_control_plane::{Bootstrap, ControlPlane, FleetTimes, StoreKind};
use orch8_model::{DatabaseUrl, Role, StoreName, TenantId};
use orch8_proto::{
    client::Failure,
    serve::{Ended, ServeError, Services, serve},
    v1::{
        self, fleet_service_client::FleetServiceClient, placement_service_client::PlacementServiceClient,
        tenant_service_client::TenantServiceClient,
    },
};
use orch8_seal::SecretText;
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::Kind;

/// Longer than any answer here takes.
pub const SOON: Duration = Duration::from_secs(10);
/// May everything that the deployment itself may.
pub const ADMIN: &str = "admin";
/// An operator who may not touch placements.
pub const OPERATOR: &str = "operator";
pub const NODE: &str = "node";
/// A client of the tenant `acme`.
pub const CLIENT: &str = "client";

/// Puts a key on every call.
#[derive(Clone)]
pub struct Key(Option<String>);

impl Interceptor for Key {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            let value = MetadataValue::try_from(format!("Bearer {key}")).expect("ascii");
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

pub type Keyed = InterceptedService<Channel, Key>;

/// Where the rows are.
#[derive(Debug)]
pub enum Home {
    Folder(TempDir),
    Url(DatabaseUrl),
}

impl Home {
    /// Where nothing is yet.
    pub fn new() -> Self {
        match super::ON {
            Kind::Sqlite => Self::Folder(tempfile::tempdir().expect("a folder")),
            Kind::Postgres => {
                Self::Url(DatabaseUrl::parse(&orch8_test_postgres::database()).expect("an address"))
            }
        }
    }

    pub fn url(&self) -> DatabaseUrl {
        match self {
            Self::Folder(folder) => DatabaseUrl::Sqlite(folder.path().join("control.db")),
            Self::Url(url) => url.clone(),
        }
    }
}

pub struct Rig {
    pub home: Home,
    pub plane: ControlPlane,
    channel: Channel,
    stop: CancellationToken,
    serving: JoinHandle<Result<Ended, ServeError>>,
}

impl Rig {
    pub async fn start() -> Self {
        Self::start_in(Home::new()).await
    }

    pub async fn start_in(home: Home) -> Self {
        Self::start_in_with(home, times()).await
    }

    /// With other times than a tenth of the real ones.
    pub async fn start_with(times: FleetTimes) -> Self {
        Self::start_in_with(Home::new(), times).await
    }

    async fn start_in_with(home: Home, times: FleetTimes) -> Self {
        let plane = ControlPlane::open_with(&home.url(), times).await.expect("opens");
        plane.bootstrap(first_keys()).await.expect("bootstraps");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let services = plane.serve(Services::new());
        let serving = tokio::spawn(serve(listener, services, plane.keys().clone(), stop.clone(), SOON));
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("a uri");
        Self { home, plane, channel: endpoint.connect().await.expect("connects"), stop, serving }
    }

    /// Another process on the same database.
    pub async fn replica(&self) -> Self {
        Self::start_in(Home::Url(self.home.url())).await
    }

    /// The same database under a new process.
    pub async fn restart(self) -> Self {
        let home = self.end().await;
        Self::start_in(home).await
    }

    /// Stops as a process does; fails when it takes the whole drain.
    pub async fn end(self) -> Home {
        self.stop.cancel();
        self.plane.drain();
        drop(self.channel);
        let ended = timeout(SOON / 2, self.serving).await.expect("no hang").expect("no panic");
        assert_eq!(ended.expect("no error"), Ended::Drained);
        self.plane.close().await;
        self.home
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn tenants(&self, key: &str) -> TenantServiceClient<Keyed> {
        TenantServiceClient::with_interceptor(self.channel(), Key(Some(key.to_owned())))
    }

    pub fn placements(&self, key: &str) -> PlacementServiceClient<Keyed> {
        PlacementServiceClient::with_interceptor(self.channel(), Key(Some(key.to_owned())))
    }

    pub fn fleet(&self, key: &str) -> FleetServiceClient<Keyed> {
        FleetServiceClient::with_interceptor(self.channel(), Key(Some(key.to_owned())))
    }

    /// One call with an empty message to any path: its status, if it was refused.
    pub async fn knock(&self, path: &'static str, key: Option<&str>) -> Result<(), Status> {
        let mut request = Request::new(());
        request = Key(key.map(str::to_owned)).call(request).expect("a key");
        let mut grpc = tonic::client::Grpc::new(self.channel());
        grpc.ready().await.expect("ready");
        let path = http::uri::PathAndQuery::from_static(path);
        // Also right for unary RPCs: a stream of one answer.
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        grpc.server_streaming(request, path, codec).await.map(|_| ())
    }

    pub async fn register_store(&self, name: &str, kind: v1::StoreKind) -> v1::Store {
        let request = v1::RegisterStoreRequest { name: name.to_owned(), kind: kind.into() };
        let known = self.placements(ADMIN).register_store(request).await.expect("registered");
        known.into_inner().store.expect("a store")
    }

    pub async fn create_tenant(&self, id: &str) -> v1::Tenant {
        let request = v1::CreateTenantRequest { tenant_id: id.to_owned(), display_name: String::new() };
        let made = self.tenants(ADMIN).create_tenant(request).await.expect("made");
        made.into_inner().tenant.expect("a tenant")
    }
}

/// A tenth of what they are: a node is given up after a second.
pub fn times() -> FleetTimes {
    FleetTimes::default().faster(10)
}

fn first_keys() -> Bootstrap {
    let keys: [(&str, bool, &[Role]); 4] = [
        (ADMIN, false, &[Role::Operator, Role::PlacementAdmin]),
        (OPERATOR, false, &[Role::Operator]),
        (NODE, false, &[Role::Node]),
        (CLIENT, true, &[Role::Client]),
    ];
    Bootstrap {
        tenant: TenantId::parse("acme").expect("a name"),
        store: (StoreName::parse("main").expect("a name"), StoreKind::Sqlite),
        keys: keys
            .into_iter()
            .map(|(key, of_tenant, roles)| {
                (SecretText::new(key.to_owned()), of_tenant, roles.iter().copied().collect())
            })
            .collect(),
    }
}

/// What a refused call was refused for.
pub fn refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> Failure {
    Failure::from(answer.expect_err("refused"))
}

/// Refused for this field: reason and field.
pub fn field<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> (String, String) {
    let failure = refused(answer);
    let field = failure.fields.first().map(|f| f.field.clone()).unwrap_or_default();
    (failure.reason, field)
}
