//! Bytes that are no message, and bodies that are no frames: the caller's fault, said in our words.

use prost_reflect::{FieldDescriptor, Kind, MethodDescriptor};
use tonic::Code;

use crate::{
    baseline::Baseline,
    methods, owed, path_of,
    raw::{Raw, status_of},
    relay::Relay,
    rig::Engine,
};

/// An open-ended varint, a length beyond the end, bytes that are not UTF-8, a group that is never closed, the field
/// number 0.
const GARBAGE: &[&[u8]] =
    &[&[0xff; 11], &[0x0a, 0xff, 0xff, 0xff, 0x0f], &[0x0a, 0x02, 0xff, 0xfe], &[0x0b], &[0x00]];

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_the_callers_fault() {
    let engine = Engine::start().await;
    let baseline = Baseline::make(&engine).await;
    let relay = Relay::to(&engine.address()).await;
    let raw = Raw::connect(&relay.address);
    for method in methods() {
        let path = path_of(&method);
        let spoilt = GARBAGE.iter().map(|bytes| bytes.to_vec()).chain(wrong_types(&method));
        for garbage in spoilt {
            for good in baseline.requests(&path) {
                let mut messages = good.messages.clone();
                *messages.last_mut().expect("a message") = garbage.clone();
                match raw.call(&method, &good.key, messages).await {
                    // Without fields every well-formed tag is an unknown field.
                    Ok(_) => assert_eq!(method.input().fields().len(), 0, "{path} took {garbage:?}"),
                    Err(status) => {
                        let what = format!("{path} {garbage:?}");
                        owed(&what, &status);
                        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
                    }
                }
            }
        }
    }
    assert_eq!(relay.connections(), 1, "the connection survived every call");
    assert!(!engine.log().contains("panicked"), "{}", engine.log());
}

/// One message per field and wire type that the field does not have.
fn wrong_types(method: &MethodDescriptor) -> Vec<Vec<u8>> {
    let fields: Vec<_> = method.input().fields().collect();
    fields.iter().flat_map(|field| (0..8).filter_map(|wire| wrong_type(field, wire))).collect()
}

fn wrong_type(field: &FieldDescriptor, wire: u32) -> Option<Vec<u8>> {
    let own = match field.kind() {
        Kind::String | Kind::Bytes | Kind::Message(_) => 2,
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => 5,
        Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Bool
        | Kind::Enum(_) => 0,
    };
    // A list of numbers comes packed or one by one.
    if wire == own || (field.is_list() && own != 2 && wire == 2) {
        return None;
    }
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(u64::from(field.number() << 3 | wire), &mut bytes);
    // As a varint, a fixed number or a length: nothing is missing but the right type.
    bytes.extend([0; 8]);
    Some(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_frames_are_the_callers_fault() {
    let engine = Engine::start().await;
    let baseline = Baseline::make(&engine).await;
    let relay = Relay::to(&engine.address()).await;
    let raw = Raw::connect(&relay.address);
    let framed = |flag: u8, length: u32, rest: &[u8]| [&[flag], &length.to_be_bytes()[..], rest].concat();
    let cases = [
        ("nothing", "identity", Vec::new()),
        ("half a frame header", "identity", vec![0, 0, 0]),
        ("less than its length", "identity", framed(0, 100, b"abc")),
        ("a length beyond all limits", "identity", framed(0, u32::MAX, b"abc")),
        ("compressed, but not said how", "identity", framed(1, 3, b"abc")),
        ("an unknown flag", "identity", framed(2, 3, b"abc")),
        ("gzip that is none", "gzip", framed(1, 3, b"abc")),
        ("an encoding nobody has", "brainfold", framed(1, 3, b"abc")),
    ];
    for method in methods() {
        let path = path_of(&method);
        for good in baseline.requests(&path).iter().take(1) {
            for (what, encoding, body) in &cases {
                let what = format!("{path}: {what}");
                let status = status_of(raw.post(&path, &good.key, encoding, body.clone()).await).await;
                // The protocol's own word for an encoding that is not spoken here; it tells those that are.
                if (*encoding, status.code()) != ("brainfold", Code::Unimplemented) {
                    owed(&what, &status);
                    assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
                }
            }
        }
    }
    assert_eq!(relay.connections(), 1, "the connection survived every call");
    assert!(!engine.log().contains("panicked"), "{}", engine.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_body_that_unpacks_to_a_large_one_is_refused() {
    let engine = Engine::start().await;
    let raw = Raw::connect(&engine.address());
    let client = engine.key("client");
    let method = methods().into_iter().find(|m| m.name() == "ListSequences").expect("an RPC");
    // Field 2, a string, of 64 MiB.
    let mut bomb = vec![0x12, 0x80, 0x80, 0x80, 0x20];
    bomb.resize(bomb.len() + (64 << 20) - 5, b'x');
    let status = raw.call_with_gzip(&method, &client, vec![bomb]).await.expect_err("refused");
    assert_eq!(owed("a bomb", &status), orch8_model::Reason::TooLarge, "{status:?}");
    raw.call_with_gzip(&method, &client, vec![Vec::new()]).await.expect("gzip itself is fine");
}
