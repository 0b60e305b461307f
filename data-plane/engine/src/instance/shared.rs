//! A value that several places of the state hold without copying it.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use orch8_model::json;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Shared, immutable, written as the value itself.
#[derive(Debug)]
pub(crate) struct Shared<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    value: T,
    /// Measured at most once.
    bytes: OnceLock<usize>,
}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Inner { value, bytes: OnceLock::new() }))
    }
}

impl Shared<Value> {
    /// Bytes of the JSON text.
    pub(crate) fn bytes(&self) -> usize {
        *self.0.bytes.get_or_init(|| json::size(&self.0.value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

/// Reads a field that is there: a null is a value, and only a missing field is none. Goes with `default`.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Shared<Value>>, D::Error> {
    Shared::deserialize(deserializer).map(Some)
}
