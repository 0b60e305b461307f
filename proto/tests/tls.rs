//! A real listener with TLS: who trusts whom, which certificate speaks for whom, and until when.

use std::{net::SocketAddr, time::Duration};

use futures::stream;
use orch8_model::{Reason, Role};
use orch8_proto::{
    client::{Address, Channels, Code, Dial, Failure},
    identity::{Grant, KeyRing, certificate_key, principal},
    limited,
    serve::{Ended, ServeError, Services, Terms, serve},
    tls::{Authorities, ClientTls, Identity, ServerTls, fingerprint},
    v1::{self, fleet_service_client::FleetServiceClient, fleet_service_server as fleet},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// Longer than any answer here takes, far shorter than for ever.
const SOON: Duration = Duration::from_secs(5);

/// An authority of this test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority"))
    }

    /// Certificate and key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("params");
        (params.signed_by(&key, &self.0).expect("a certificate").pem(), key.serialize_pem())
    }

    fn trusted(&self) -> Authorities {
        Authorities::read(self.0.pem().as_bytes()).expect("an authority")
    }
}

fn identity((chain, key): &(String, String)) -> Identity {
    Identity::read(chain.as_bytes(), key.as_bytes()).expect("an identity")
}

/// Answers who asked, and watches that never say anything.
struct Mirror;

#[tonic::async_trait]
impl fleet::FleetService for Mirror {
    type WatchStream = stream::Pending<Result<v1::WatchResponse, Status>>;
    type JoinStream = stream::Pending<Result<v1::JoinResponse, Status>>;

    async fn join(
        &self,
        _: Request<tonic::Streaming<v1::JoinRequest>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        Ok(Response::new(stream::pending()))
    }

    async fn find_endpoints(
        &self,
        request: Request<v1::FindEndpointsRequest>,
    ) -> Result<Response<v1::FindEndpointsResponse>, Status> {
        let caller = principal(&request).expect("a caller").key_id();
        Ok(Response::new(v1::FindEndpointsResponse { addresses: vec![caller] }))
    }

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(stream::pending()))
    }

    async fn describe_fleet(
        &self,
        _: Request<v1::DescribeFleetRequest>,
    ) -> Result<Response<v1::DescribeFleetResponse>, Status> {
        Ok(Response::new(v1::DescribeFleetResponse::default()))
    }
}

struct House {
    address: SocketAddr,
    keys: KeyRing,
    stop: CancellationToken,
    ended: JoinHandle<Result<Ended, ServeError>>,
}

impl House {
    async fn open(tls: Option<ServerTls>, connection_age: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (keys, stop) = (KeyRing::new(), CancellationToken::new());
        keys.update([(orch8_seal::sha256(b"key"), everything())]);
        let services = Services::new().with(limited!(fleet::FleetServiceServer::new(Mirror)));
        let terms = Terms { tls, drain: Duration::from_millis(200), connection_age };
        let ended = tokio::spawn(serve(listener, services, keys.clone(), stop.clone(), terms));
        Self { address, keys, stop, ended }
    }

    async fn connect(&self, scheme: &str, tls: ClientTls) -> Result<FleetServiceClient<Channels>, String> {
        let address = Address::parse(&format!("{scheme}://localhost:{}", self.address.port())).expect("one");
        let channels = Channels::connect(&[address], &Dial { tls, user_agent: "test" }, 0).await;
        channels.map(FleetServiceClient::new).map_err(|why| format!("{why:?}"))
    }
}

fn everything() -> Grant {
    Grant { tenant: None, roles: Role::ALL.iter().copied().collect(), expires_at: None, revoked: false }
}

fn keyed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", "Bearer key".parse().expect("ascii"));
    request
}

const ALWAYS: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_server_is_believed_when_its_authority_is_trusted_and_only_then() {
    let (ours, foreign) = (Authority::new(), Authority::new());
    let server = ServerTls::new(&identity(&ours.issue("localhost")), None).expect("fits");
    let house = House::open(Some(server), ALWAYS).await;
    let trusting = |authorities| ClientTls { authorities: Some(authorities), identity: None };

    let mut client = house.connect("https", trusting(ours.trusted())).await.expect("trusted");
    client.describe_fleet(keyed(v1::DescribeFleetRequest {})).await.expect("answers");
    let refusal = house.connect("https", trusting(foreign.trusted())).await.expect_err("another authority");
    assert!(refusal.contains("InvalidCertificate"), "{refusal}");
    // Plain text to a listener with TLS: no answer, and nobody else is troubled.
    let plain = house.connect("http", ClientTls::default()).await;
    if let Ok(mut client) = plain {
        client.describe_fleet(keyed(v1::DescribeFleetRequest {})).await.expect_err("no plain text");
    }
    client.describe_fleet(keyed(v1::DescribeFleetRequest {})).await.expect("still answers");

    let other = ServerTls::new(&identity(&ours.issue("elsewhere.example")), None).expect("fits");
    let house = House::open(Some(other), ALWAYS).await;
    let refusal = house.connect("https", trusting(ours.trusted())).await.expect_err("another name");
    assert!(refusal.contains("NotValidForName"), "{refusal}");
}

#[tokio::test]
async fn a_client_certificate_is_a_credential_until_it_is_revoked() {
    let (ours, foreign) = (Authority::new(), Authority::new());
    let server = ServerTls::new(&identity(&ours.issue("localhost")), Some(&ours.trusted())).expect("fits");
    let house = House::open(Some(server), ALWAYS).await;
    let (mine, unknown, theirs) = (ours.issue("me"), ours.issue("somebody"), foreign.issue("me"));
    let credential = certificate_key(&fingerprint(mine.0.as_bytes()).expect("one"));
    house.keys.update([(credential, everything())]);
    let showing = |pair: Option<&(String, String)>| ClientTls {
        authorities: Some(ours.trusted()),
        identity: pair.map(identity),
    };
    let ask = v1::FindEndpointsRequest::default();

    let mut client = house.connect("https", showing(Some(&mine))).await.expect("connects");
    let caller = client.find_endpoints(ask.clone()).await.expect("known").into_inner().addresses;
    assert_eq!(caller, [credential.hex()[..16].to_owned()]);
    for (pair, what) in [(Some(&unknown), "not registered"), (None, "none shown")] {
        let mut client = house.connect("https", showing(pair)).await.expect("connects");
        let refusal = Failure::from(client.find_endpoints(ask.clone()).await.expect_err(what));
        assert_eq!(refusal.known(), Some(Reason::CredentialInvalid), "{what}");
        client.find_endpoints(keyed(ask.clone())).await.expect("a key is as good");
    }
    // A certificate of another authority ends the handshake, which TLS 1.3 tells with the first answer.
    match house.connect("https", showing(Some(&theirs))).await {
        Err(_) => {}
        Ok(mut client) => drop(client.find_endpoints(ask.clone()).await.expect_err("another authority")),
    }

    let mut watch = client.watch(v1::WatchRequest::default()).await.expect("opens").into_inner();
    house.keys.update([(credential, Grant { revoked: true, ..everything() })]);
    let last = timeout(Duration::from_secs(1), watch.message()).await.expect("within a second");
    assert_eq!(Failure::from(last.expect_err("an end")).code, Code::Unauthenticated);
    let refusal = Failure::from(client.find_endpoints(ask).await.expect_err("revoked"));
    assert_eq!(refusal.known(), Some(Reason::CredentialInvalid), "on the same connection");
}

#[tokio::test]
async fn a_peer_that_never_shakes_hands_does_not_hold_the_shutdown() {
    let ours = Authority::new();
    let server = ServerTls::new(&identity(&ours.issue("localhost")), None).expect("fits");
    let house = House::open(Some(server), ALWAYS).await;
    let _silent = tokio::net::TcpStream::connect(house.address).await.expect("connects");
    tokio::time::sleep(Duration::from_millis(50)).await;
    house.stop.cancel();
    let ended = timeout(SOON, house.ended).await.expect("in time").expect("no panic").expect("no error");
    assert_eq!(ended, Ended::Cut);
}

#[tokio::test]
async fn an_old_connection_is_asked_to_move_on_and_calls_go_on_over_a_new_one() {
    let house = House::open(None, Duration::from_millis(300)).await;
    let mut client = house.connect("http", ClientTls::default()).await.expect("connects");
    let began = std::time::Instant::now();
    // Four ages long, a call at a time: none is lost when its connection leaves.
    while began.elapsed() < Duration::from_millis(1_200) {
        client.describe_fleet(keyed(v1::DescribeFleetRequest {})).await.expect("answers");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_stream_on_an_old_connection_is_ended_and_begins_anew_at_once() {
    let house = House::open(None, Duration::from_millis(300)).await;
    let mut client = house.connect("http", ClientTls::default()).await.expect("connects");
    for _ in 0..3 {
        let mut watch = client.watch(keyed(v1::WatchRequest::default())).await.expect("opens").into_inner();
        let last = timeout(SOON, watch.message()).await.expect("an end");
        let last = Failure::from(last.expect_err("with a status"));
        assert_eq!(last.known(), Some(Reason::Draining));
        assert!(last.retry_after.is_some_and(|after| after < Duration::from_millis(100)), "{last:?}");
    }
}

#[tokio::test]
async fn a_call_that_one_server_cannot_take_goes_to_the_next() {
    let (leaving, gone, good) =
        (House::open(None, ALWAYS).await, House::open(None, ALWAYS).await, House::open(None, ALWAYS).await);
    let address = |house: &House| Address::parse(&format!("http://{}", house.address)).expect("one");
    let addresses = [address(&gone), address(&leaving), address(&good)];
    gone.stop.cancel();
    gone.ended.await.expect("no panic").expect("no error");
    let dial = Dial { tls: ClientTls::default(), user_agent: "test" };
    for first in 0..3 {
        let channels = Channels::lazy(&addresses, &dial, first).expect("channels");
        let mut client = FleetServiceClient::new(channels);
        client.describe_fleet(keyed(v1::DescribeFleetRequest {})).await.expect("one of them");
    }
    // What a server that is there says about the request is the answer.
    let mut client = FleetServiceClient::new(Channels::lazy(&addresses, &dial, 1).expect("channels"));
    let refusal =
        Failure::from(client.describe_fleet(v1::DescribeFleetRequest {}).await.expect_err("no key"));
    assert_eq!(refusal.known(), Some(Reason::CredentialInvalid));
    let nobody = Channels::connect(&addresses[..1], &dial, 7).await.expect_err("nobody is there");
    assert!(format!("{nobody:?}").contains("refused"), "{nobody:?}");
}
