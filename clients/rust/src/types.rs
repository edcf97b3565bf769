use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Payload, Shown};

fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|each| each.as_secs_f64()).serialize(serializer)
}

/// The brokers as one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BrokerInfo {
    pub name: String,
    pub version: String,
    pub cluster_id: String,
    pub bootstrap_servers: String,
    /// Its node id; `None` while no broker is up.
    pub controller: Option<i32>,
}

/// "ok" or "down".
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Status {
    pub status: String,
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

/// A topic. `configs` are those that differ from the broker's defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Topic {
    pub name: String,
    pub topic_id: String,
    pub partitions: u32,
    pub configs: BTreeMap<String, String>,
    pub is_internal: bool,
}

/// Some topics, by name. `next_after` goes on; `None` once all were listed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TopicList {
    pub topics: Vec<Topic>,
    pub next_after: Option<String>,
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

/// The partition and the offset that a record got.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordMetadata {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
}

/// The places of records that were appended, in their order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ProducedRecords {
    pub records: Vec<RecordMetadata>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A header of a record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Header {
    pub name: String,
    pub value: Shown,
}

/// A record as a consumer would get it, and how it is stored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Record {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub timestamp: i64,
    pub timestamp_type: String,
    pub key: Shown,
    pub value: Shown,
    pub headers: Vec<Header>,
    pub message_format: i32,
    pub codec: String,
    pub producer_id: i64,
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

/// Some records of a topic, partition by partition. `next_offsets` has by partition the start that goes on; it is empty
/// once all was read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordPart {
    pub records: Vec<Record>,
    #[serde(default)]
    pub next_offsets: BTreeMap<String, i64>,
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

/// Some consumer groups. `next_after` goes on; `None` once all were listed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GroupIds {
    pub groups: Vec<String>,
    pub next_after: Option<String>,
}

/// The committed offset of a partition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Committed {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
}

/// The offsets that a group is behind in a partition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PartitionLag {
    pub topic: String,
    pub partition: i32,
    pub lag: i64,
}

/// The offsets that a group is behind. There is a warning if there is no such group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Lag {
    pub total: i64,
    pub partitions: Vec<PartitionLag>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Neighboring offsets that were delivered to a share group and are in the same state, the last one included.
/// `member_id` is `None` where no member has acquired them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InFlight {
    pub first_offset: i64,
    pub last_offset: i64,
    pub state: String,
    pub delivery_count: i32,
    pub member_id: Option<String>,
}

/// A partition as a share group sees it. `start_offset` and `lag` are `None` before the first read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SharePartition {
    pub topic: String,
    pub partition: i32,
    pub start_offset: Option<i64>,
    pub lag: Option<i64>,
    pub acquired: i64,
    pub in_flight: Vec<InFlight>,
}

/// A partition of a member of a group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Assigned {
    pub topic: String,
    pub partition: i32,
}

/// A member of a group. `partitions` is `None` while it waits, or when it is not a consumer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Member {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub partitions: Option<Vec<Assigned>>,
}

/// A group at one moment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Group {
    pub group_id: String,
    pub r#type: String,
    pub state: String,
    pub is_stable: bool,
    pub generation: i32,
    pub protocol: Option<String>,
    pub members: Vec<Member>,
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

/// One rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Rule {
    pub resource_type: String,
    pub resource_name: String,
    pub pattern_type: String,
    pub principal: String,
    pub host: String,
    pub operation: String,
    pub permission: String,
}

/// A metric of a client.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Metric {
    pub name: String,
    pub value: f64,
}

/// The metrics that a client has sent at once (KIP-714).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Push {
    pub client_instance_id: String,
    pub client_id: String,
    pub client_host: String,
    pub timestamp: i64,
    pub is_last: bool,
    pub metrics: Vec<Metric>,
}

/// The name of a snapshot and the directory for it on the broker's machine; `None` leaves either to the broker.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewSnapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Snapshot {
    pub name: String,
    pub directory: String,
}

/// One broker. `address` is HOST:PORT.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Node {
    pub node_id: i32,
    pub is_up: bool,
    pub address: String,
    pub rack: Option<String>,
}

/// Whether a journal is kept, and how many requests have come since it was begun.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JournalInfo {
    pub is_kept: bool,
    pub count: u64,
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

/// A request and its answer, with Kafka's own field names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JournalEntry {
    pub number: u64,
    pub time: i64,
    pub connection: String,
    pub node: i32,
    pub client_host: String,
    pub client_id: Option<String>,
    pub api: String,
    pub version: i16,
    pub correlation_id: i32,
    pub request: Option<Map<String, Value>>,
    pub response: Option<Map<String, Value>>,
    pub errors: Vec<String>,
    pub duration_ms: Option<f64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub fault: Option<Fault>,
    pub failure: Option<String>,
}

/// Requests of clients and their responses, oldest first. `count` also has those that do not fit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JournalEntries {
    pub count: u64,
    pub requests: Vec<JournalEntry>,
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

/// A fault, and how many requests it has hit. `add_fault` gives it a warning if it probably hits nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InstalledFault {
    pub id: String,
    pub fired: u64,
    pub fault: Fault,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A fault, and the newest 1000 requests that it has hit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FaultHits {
    pub id: String,
    pub fired: u64,
    pub fault: Fault,
    pub hits: Vec<JournalEntry>,
}
