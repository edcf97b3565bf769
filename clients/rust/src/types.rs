use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::Payload;

fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|each| each.as_secs_f64()).serialize(serializer)
}

/// A topic to be made. It has either a name or a prefix, to which the broker adds random digits.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewTopic {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication_factor: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub configs: BTreeMap<String, Value>,
}

/// A part of a list: what sorts behind `after`, at most `limit` of it.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// A record to be written.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewRecord {
    pub value: Payload,
    pub key: Payload,
    pub headers: Vec<(String, Payload)>,
    /// Milliseconds since the epoch; `None` for the broker's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// `None` for the one that the key decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
}

impl NewRecord {
    /// A record with a key and a value.
    pub fn new(key: impl Into<Payload>, value: impl Into<Payload>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// The message format (v2, v1 or v0) and the codec (none, gzip, snappy, lz4 or zstd).
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProduceOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
}

/// Records of a topic to read. By itself: all partitions from offset 0 on, committed records only, at most 10,000, as text.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    pub partition: Option<i32>,
    pub start: Option<i64>,
    pub isolation: Option<String>,
    pub limit: Option<u32>,
    pub format: crate::Format,
}

/// An expected record. What is `None` may be anything. Of a JSON object only the given members count.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Expectation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Payload>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// A record that must not be there. `within` is how long none may come; `None` looks once.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Absence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Payload>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub within: Option<Duration>,
}

/// The conditions of the records to wait for.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Matching {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Payload>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

/// Which records count, `None` for all, and how long to wait for them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RecordWait {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<Matching>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// The number of members of a group, `None` for any, and the time to wait.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupWait {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// The topic that a group has to have read, `None` for all, and how long to wait.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CatchingUp {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// Limits of an entity. It has a "user", a "client-id", both, or an "ip"; `None` is the default of its kind. Limits are
/// Kafka's, per second: "producer_byte_rate"; `None` removes one.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Quota {
    pub entity: BTreeMap<String, Option<String>>,
    pub limits: BTreeMap<String, Option<f64>>,
}

/// A rule that permits or denies operations on resources.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewRule {
    /// "allow", also when it is `None`, or "deny".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// "User:alice", or just the name; "User:*" is every user.
    pub principal: String,
    /// "read", "write", "describe" ..., or "all".
    pub operations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactional_id: Option<String>,
    pub cluster: bool,
    /// For all names that begin so.
    pub prefixed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The name of a snapshot and the directory for it on the broker's machine; `None` leaves either to the broker.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewSnapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// Requests of the journal to choose; they match all that is given. Names may have the wildcards * and ?.
#[derive(Debug, Clone, Default)]
pub struct RequestFilter {
    pub api: Option<String>,
    pub client_id: Option<String>,
    pub topic: Option<String>,
    pub group: Option<String>,
    /// The name or number of an error in the answer.
    pub error: Option<String>,
    /// Leaves out the requests up to this number.
    pub after: Option<u64>,
    /// For the newest that fit.
    pub limit: Option<u32>,
}

/// Which requests count, and how long to wait for them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RequestWait {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// A fault: its effect, the requests that it hits and its limits. docs/faults.md describes each field.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactional_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The name or the number of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub black_hole: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_metadata: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_ms: Option<u64>,
}
