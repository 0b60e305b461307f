//! The rim of every server, over real sockets: the two shutdowns that hang elsewhere, hostile frames, deadlines,
//! panics, health and reflection.

use std::{net::SocketAddr, time::Duration};

use futures::{StreamExt, stream};
use orch8_model::{Reason, Role};
use orch8_proto::{
    client::{Code, Failure},
    identity::{Grant, KeyRing},
    limited,
    serve::{Ended, GZIP, ServeError, Services, serve},
    v1::{self, fleet_service_client::FleetServiceClient, fleet_service_server as fleet},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, codec::CompressionEncoding, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

const KEY: &str = "a key";
/// Longer than any answer here takes, far shorter than for ever.
const SOON: Duration = Duration::from_secs(5);

/// A service that behaves as badly as it can.
struct Stubborn;

#[tonic::async_trait]
impl fleet::FleetService for Stubborn {
    type WatchStream = stream::Pending<Result<v1::WatchResponse, Status>>;
    type JoinStream = stream::Pending<Result<v1::JoinResponse, Status>>;

    async fn join(
        &self,
        _request: Request<tonic::Streaming<v1::JoinRequest>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        Ok(Response::new(stream::pending()))
    }

    async fn find_endpoints(
        &self,
        _request: Request<v1::FindEndpointsRequest>,
    ) -> Result<Response<v1::FindEndpointsResponse>, Status> {
        Ok(Response::new(v1::FindEndpointsResponse::default()))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        assert!(request.metadata().get("authorization").is_none(), "the secret went no further");
        Ok(Response::new(stream::pending()))
    }

    async fn describe_fleet(
        &self,
        request: Request<v1::DescribeFleetRequest>,
    ) -> Result<Response<v1::DescribeFleetResponse>, Status> {
        match request.metadata().get("mood").map(|m| m.as_bytes()) {
            Some(b"panic") => panic!("as asked"),
            Some(b"sleep") => futures::future::pending().await,
            _ => Ok(Response::new(v1::DescribeFleetResponse::default())),
        }
    }
}

struct House {
    address: SocketAddr,
    stop: CancellationToken,
    ended: JoinHandle<Result<Ended, ServeError>>,
}

impl House {
    async fn open(drain: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let keys = KeyRing::new();
        let roles = Role::ALL.iter().copied().collect();
        let grant = Grant { tenant: None, roles, expires_at: None, revoked: false };
        keys.update([(orch8_seal::sha256(KEY.as_bytes()), grant)]);
        let services = Services::new().with(limited!(fleet::FleetServiceServer::new(Stubborn)));
        let stop = CancellationToken::new();
        let ended = tokio::spawn(serve(listener, services, keys, stop.clone(), drain));
        Self { address, stop, ended }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("a uri");
        endpoint.connect().await.expect("connects")
    }

    async fn client(&self) -> FleetServiceClient<Channel> {
        FleetServiceClient::new(self.channel().await)
    }

    async fn ends(self) -> Ended {
        let joined = timeout(SOON, self.ended).await.expect("serve returned");
        joined.expect("no panic").expect("no error")
    }
}

fn keyed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = format!("Bearer {KEY}").parse().expect("ascii");
    request.metadata_mut().insert("authorization", bearer);
    request
}

#[tokio::test]
async fn an_open_stream_whose_handler_never_ends_does_not_hold_the_shutdown() {
    let house = House::open(Duration::from_millis(300)).await;
    let mut client = house.client().await;
    let mut watch = client.watch(keyed(v1::WatchRequest::default())).await.expect("opens").into_inner();
    let since = Instant::now();
    house.stop.cancel();
    let last = timeout(SOON, watch.message()).await.expect("an end").expect_err("an end with a status");
    let failure = Failure::from(last);
    assert_eq!(failure.known(), Some(Reason::Draining));
    assert!(failure.retry_after.is_some());
    assert_eq!(house.ends().await, Ended::Cut);
    assert!(since.elapsed() >= Duration::from_millis(300), "it had its time to end by itself");
}

#[tokio::test]
async fn a_call_whose_handler_never_answers_does_not_hold_the_shutdown() {
    let house = House::open(Duration::from_millis(100)).await;
    let mut client = house.client().await;
    let call = tokio::spawn(async move {
        let mut request = keyed(v1::DescribeFleetRequest::default());
        request.metadata_mut().insert("mood", "sleep".parse().expect("ascii"));
        client.describe_fleet(request).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    house.stop.cancel();
    assert_eq!(house.ends().await, Ended::Cut);
    assert!(timeout(SOON, call).await.expect("cut").expect("no panic").is_err());
}

#[tokio::test]
async fn a_peer_that_ignores_goaway_does_not_hold_the_shutdown() {
    let house = House::open(Duration::from_millis(200)).await;
    let mut socket = TcpStream::connect(house.address).await.expect("connects");
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("a preface");
    let mut settings = [0; 9];
    socket.read_exact(&mut settings).await.expect("the server's settings");
    house.stop.cancel();
    assert_eq!(house.ends().await, Ended::Cut);
    let mut rest = Vec::new();
    let closed = timeout(SOON, socket.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the socket was cut, not leaked");
}

#[tokio::test]
async fn health_says_not_serving_first_and_then_lets_go() {
    let house = House::open(Duration::from_secs(60)).await;
    let mut health = HealthClient::new(house.channel().await);
    for service in ["", "orch8.v1.FleetService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = health.check(request).await.expect("open to all").into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service:?}");
    }
    let request = HealthCheckRequest { service: String::new() };
    let mut watch = health.watch(request).await.expect("open to all").into_inner();
    assert_eq!(watch.message().await.expect("one").expect("one").status(), ServingStatus::Serving);
    house.stop.cancel();
    let last = timeout(SOON, watch.message()).await.expect("soon").expect("one").expect("one");
    assert_eq!(last.status(), ServingStatus::NotServing);
    drop((health, watch));
    assert_eq!(house.ends().await, Ended::Drained, "a watcher of the health does not cost the whole drain");
}

#[tokio::test]
async fn bad_bytes_are_the_callers_fault_and_never_internal() {
    let house = House::open(SOON).await;
    let channel = house.channel().await;
    // The same field number as `node_id`, but bytes that are not UTF-8.
    let garbage = v1::Payload { data: vec![0xff, 0xfe].into(), content_type: String::new() };
    let failure = raw(channel.clone(), garbage, None).await;
    assert_eq!((failure.code, failure.known()), (Code::InvalidArgument, Some(Reason::InvalidField)));

    let large = v1::Payload { data: vec![b'x'; (4 << 20) + 1].into(), content_type: String::new() };
    for (compression, what) in [(None, "plain"), (Some(GZIP), "a bomb")] {
        let failure = raw(channel.clone(), large.clone(), compression).await;
        assert_eq!(failure.known(), Some(Reason::TooLarge), "{what}");
        assert_eq!(failure.metadata["limit"], (4 << 20).to_string(), "{what}");
    }
}

/// Sends one message of another type to Watch.
async fn raw(channel: Channel, message: v1::Payload, compression: Option<CompressionEncoding>) -> Failure {
    let mut grpc = tonic::client::Grpc::new(channel);
    if let Some(encoding) = compression {
        grpc = grpc.send_compressed(encoding);
    }
    grpc.ready().await.expect("ready");
    let codec = tonic_prost::ProstCodec::<v1::Payload, v1::WatchResponse>::default();
    let path = http::uri::PathAndQuery::from_static("/orch8.v1.FleetService/Watch");
    grpc.server_streaming(keyed(message), path, codec).await.expect_err("refused").into()
}

#[tokio::test]
async fn a_caller_who_stopped_waiting_is_told_so() {
    let house = House::open(SOON).await;
    let mut client = house.client().await;
    let mut request = keyed(v1::DescribeFleetRequest::default());
    request.metadata_mut().insert("mood", "sleep".parse().expect("ascii"));
    request.set_timeout(Duration::from_millis(50));
    let answer = timeout(SOON, client.describe_fleet(request)).await.expect("in time");
    assert_eq!(Failure::from(answer.expect_err("late")).code, Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_panic_is_one_internal_answer_and_the_connection_lives_on() {
    let house = House::open(SOON).await;
    let mut client = house.client().await;
    let mut request = keyed(v1::DescribeFleetRequest::default());
    request.metadata_mut().insert("mood", "panic".parse().expect("ascii"));
    let failure = Failure::from(client.describe_fleet(request).await.expect_err("a panic"));
    assert_eq!((failure.known(), failure.message.as_str()), (Some(Reason::Internal), "internal error"));
    client.describe_fleet(keyed(v1::DescribeFleetRequest::default())).await.expect("still serving");
}

#[tokio::test]
async fn without_a_key_nothing_of_ours_answers() {
    let house = House::open(SOON).await;
    let mut client = house.client().await;
    let failure =
        Failure::from(client.describe_fleet(v1::DescribeFleetRequest::default()).await.expect_err("no key"));
    assert_eq!(failure.known(), Some(Reason::CredentialInvalid));
}

#[tokio::test]
async fn gzip_is_accepted_by_every_service_also_health_and_reflection() {
    let house = House::open(SOON).await;
    let channel = house.channel().await;
    let mut fleet = FleetServiceClient::new(channel.clone()).send_compressed(GZIP);
    fleet.describe_fleet(keyed(v1::DescribeFleetRequest::default())).await.expect("ours");
    let mut health = HealthClient::new(channel.clone()).send_compressed(GZIP);
    health.check(HealthCheckRequest::default()).await.expect("health");

    use tonic_reflection::pb::v1 as reflection;
    let client = reflection::server_reflection_client::ServerReflectionClient::new(channel);
    let ask = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(reflection::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
    };
    let mut answers = client
        .send_compressed(GZIP)
        .server_reflection_info(stream::iter([ask]))
        .await
        .expect("reflection")
        .into_inner();
    let answer = answers.next().await.expect("one").expect("one").message_response.expect("said");
    let reflection::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("another answer: {answer:?}");
    };
    let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
    for name in ["orch8.v1.FleetService", "orch8.v1.TenantService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}
