//! An instance in its owner's memory, and the turns of it that are on their way to the store.

use std::{collections::VecDeque, sync::Arc};

use orch8_engine::{Action, Birth, Event, Instance, Status, TurnRecord, Verdict};
use orch8_model::{Millis, json};
use orch8_proto::v1;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::programs::Compiled;
use crate::{
    session::TaskRef,
    store::{BirthRow, Loaded, StoreError, TenantHandle},
};

/// A hot instance.
#[derive(Debug)]
pub struct Hot {
    pub compiled: Arc<Compiled>,
    pub instance: Instance,
    pub tenant: TenantHandle,
    pub priority: u8,
    /// What the instance row says; it is written again only when this differs.
    pub stored: Status,
    /// Not begun yet: there is a ready row, which the start or the end deletes.
    pub ready: bool,
    /// Causes of it that wait to be turned: until then it stays in memory.
    pub queued: usize,
    /// Its alarm in the wheel.
    pub alarm: Option<Millis>,
    /// Turns and bytes since the last snapshot.
    pub tail: (u32, usize),
    /// Turns that are not committed yet, oldest first.
    pub flying: VecDeque<Flying>,
    /// Rises at each use: an entry of the idle list counts only if it still has this number.
    pub used: u64,
}

/// A turn between decision and commit.
#[derive(Debug)]
pub struct Flying {
    pub turn_no: u64,
    pub actions: Vec<Action>,
    pub answers: Vec<Answer>,
    /// To be turned again if this turn turns out not to stand.
    pub cause: Cause,
}

/// Something to turn, with what to tell whom afterwards.
#[derive(Debug)]
pub struct Cause {
    pub event: Event,
    pub mail: Vec<i64>,
    pub report: Option<Report>,
}

impl Cause {
    /// An event nobody waits for.
    pub fn of(event: Event) -> Self {
        Self { event, mail: Vec::new(), report: None }
    }
}

/// A worker's report: which delivery, and who waits for the acknowledgement.
#[derive(Debug)]
pub struct Report {
    pub task: TaskRef,
    pub answer: oneshot::Sender<v1::ResultAck>,
}

/// An acknowledgement that waits for a commit.
#[derive(Debug)]
pub struct Answer {
    pub task: TaskRef,
    pub status: v1::ResultStatus,
    pub answer: oneshot::Sender<v1::ResultAck>,
}

impl Answer {
    /// Sends it.
    pub fn send(self) {
        let ack = v1::ResultAck {
            lease: Some(v1::Lease {
                task_id: self.task.task.to_string(),
                attempt: self.task.attempt,
                claim_epoch: self.task.claim_epoch.get(),
            }),
            status: self.status.into(),
            message: String::new(),
        };
        // The session may be gone; its worker will ask again.
        let _ = self.answer.send(ack);
    }
}

/// What a worker is told.
pub fn status_of(verdict: Verdict) -> v1::ResultStatus {
    match verdict {
        Verdict::Committed => v1::ResultStatus::Committed,
        Verdict::Invalid => v1::ResultStatus::Invalid,
        Verdict::TooLarge => v1::ResultStatus::TooLarge,
        Verdict::StaleLease => v1::ResultStatus::StaleLease,
        Verdict::TaskCancelled => v1::ResultStatus::TaskCancelled,
    }
}

impl Hot {
    /// Snapshot, then the tail.
    pub fn wake(loaded: Loaded, compiled: Arc<Compiled>) -> Result<Self, StoreError> {
        let instance = rebuild(&loaded, &compiled)?;
        let bytes = loaded.tail.iter().map(|row| row.body.len()).sum();
        Ok(Self {
            tail: (loaded.tail.len() as u32, bytes),
            stored: loaded.row.status,
            tenant: loaded.row.tenant,
            priority: loaded.row.birth.priority,
            ready: !instance.begun(),
            queued: 0,
            instance,
            compiled,
            alarm: None,
            flying: VecDeque::new(),
            used: 0,
        })
    }
}

/// The state of an instance from what is stored of it: one snapshot and a bounded tail.
pub fn rebuild(loaded: &Loaded, compiled: &Compiled) -> Result<Instance, StoreError> {
    let birth = birth_of(&loaded.row.tenant, &loaded.row.birth)?;
    let corrupt =
        |column| StoreError::Corrupt { table: "journal", column, key: loaded.row.birth.instance.to_string() };
    let mut instance = match &loaded.snapshot {
        Some((_, text)) => Instance::restore(birth, text).map_err(|_| corrupt("snapshot"))?,
        None => Instance::new(birth),
    };
    for row in &loaded.tail {
        let record = TurnRecord::parse(&row.body).map_err(|_| corrupt("body"))?;
        instance.apply(&compiled.program, &record);
    }
    Ok(instance)
}

fn birth_of(tenant: &TenantHandle, row: &BirthRow) -> Result<Birth, StoreError> {
    let section = |column, text: &str| match json::parse(text.as_bytes()) {
        Ok(Value::Object(map)) => Ok::<Map<String, Value>, _>(map),
        Ok(_) | Err(_) => {
            Err(StoreError::Corrupt { table: "instances", column, key: row.instance.to_string() })
        }
    };
    Ok(Birth {
        tenant: tenant.tenant.clone(),
        instance: row.instance,
        continuity: row.continuity,
        data: section("data", &row.data)?,
        config: section("config", &row.config)?,
        timezone: row.timezone.clone(),
        created_at: row.created_at,
        fire_at: row.fire_at,
    })
}
