use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::Payload;

fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|each| each.as_secs_f64()).serialize(serializer)
}

/// A topic to create. It has either a name or a prefix, to which the broker appends random digits.
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

/// A part of a list: at most `limit` names sorted after `after`.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub after: Option<String>,
    pub limit: Option<u32>,
}

/// A record to write.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewRecord {
    pub value: Payload,
    pub key: Payload,
    pub headers: Vec<(String, Payload)>,
    /// Milliseconds since the epoch, or `None` for the broker's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// `None` to choose the partition by the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
}

impl NewRecord {
    /// Returns a record with a key and a value.
    pub fn new(key: impl Into<Payload>, value: impl Into<Payload>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// The message format (v2, v1 or v0), the codec (none, gzip, snappy, lz4 or zstd), and the subjects whose latest schemas
/// encode the values and the keys.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProduceOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_schema: Option<String>,
}

/// A selection of a topic's records. The default is all partitions from offset 0, only committed records, at most
/// 10,000, as text.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    pub partition: Option<i32>,
    pub start: Option<i64>,
    pub isolation: Option<String>,
    pub limit: Option<u32>,
    pub format: crate::Format,
}

/// An expected record. A field that is `None` matches anything. JSON objects are compared by the given members only.
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

/// A record that must not exist. `within` is how long to keep checking, or `None` to check once.
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

/// The conditions for the records, or `None` for all records, and the timeout.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RecordWait {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<Matching>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// The number of members to wait for, or `None` for any number, and the timeout.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GroupWait {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// The topic that a group is expected to have read, or `None` for all topics, and the timeout.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CatchingUp {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// A check, such as "no_loss", and the topics that an application reads and writes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Checking {
    pub check: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// "key" (the default), "value", "header:NAME" or "json:FIELD".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_key: Option<String>,
    /// The ids of the outputs of an input, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<BTreeMap<String, Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The client id of the producer for that of each consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<BTreeMap<String, String>>,
    /// For "caught_up".
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub timeout: Option<Duration>,
}

/// How to misbehave: by a seed, or by the steps of an earlier run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewChaos {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// "default" without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The only misbehaviours to use, instead of those of the profile.
    pub only: Vec<String>,
    pub without: Vec<String>,
    /// The JSON of an earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Value>,
}

/// Limits of an entity, which has a "user", a "client-id", both, or an "ip". `None` stands for the default entity.
/// Limits are per second under Kafka's names, such as "producer_byte_rate". `None` removes a limit.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Quota {
    pub entity: BTreeMap<String, Option<String>>,
    pub limits: BTreeMap<String, Option<f64>>,
}

/// A rule that allows or denies operations on resources.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewRule {
    /// "allow", which is the default, or "deny".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// "User:alice" or just the name. "User:*" matches every user.
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
    /// Whether the rule applies to all names with this prefix.
    pub prefixed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The name of a snapshot and its directory on the broker's machine. The broker chooses either if it is `None`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewSnapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// A filter for requests of the journal. Requests must match all given fields. Names can have the wildcards * and ?.
#[derive(Debug, Clone, Default)]
pub struct RequestFilter {
    pub api: Option<String>,
    pub client_id: Option<String>,
    pub topic: Option<String>,
    pub group: Option<String>,
    /// The name or number of an error in the response.
    pub error: Option<String>,
    /// Skips the requests up to this number.
    pub after: Option<u64>,
    /// The maximum number of matching requests, newest first.
    pub limit: Option<u32>,
}

/// The conditions for the requests, and the timeout.
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

/// A fault: its effect, the requests that it hits, and its limits. docs/faults.md describes each field.
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
    pub applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub black_hole: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_metadata: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetch_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_bytes: Option<u64>,
}
