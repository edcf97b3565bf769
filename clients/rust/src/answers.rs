// Made by `make clients`, from the OpenAPI document (201e064f658b455d): change that.
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Fault, Shown};

/// An assigned partition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Assigned {
    pub topic: String,
    pub partition: i32,
}

/// The brokers as a whole.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BrokerInfo {
    pub name: String,
    pub version: String,
    pub cluster_id: String,
    /// The `bootstrap.servers` of clients.
    pub bootstrap_servers: String,
    pub controller: Option<i32>,
    pub registry_url: Option<String>,
}

/// What has happened under chaos. `POST /chaos` repeats it if all of this is passed as `steps`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChaosRun {
    /// The version of the steps.
    pub chaos: i32,
    pub seed: Option<i64>,
    pub profile: String,
    pub steps: Vec<ChaosStep>,
    /// Whether a client has reacted. Otherwise the run has shown nothing.
    pub is_felt: bool,
    /// The numbers of repeated steps that happened exactly, at a later attempt, and not at all.
    pub met: Vec<i32>,
    /// The same in lines of text.
    pub report: Vec<String>,
}

/// A misbehavior of the broker that happened at a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChaosStep {
    /// The name of the misbehaviour.
    pub row: String,
    /// The name of the point.
    pub point: String,
    /// The attempt at this point, from 0 on.
    pub attempt: i32,
    /// The strength of the misbehaviour, such as `delay_ms`.
    #[serde(default)]
    pub parameters: BTreeMap<String, i32>,
    /// The number of the request.
    pub number: i64,
    /// What the client did next, or "nothing".
    pub felt: String,
}

/// Something that an application did wrong.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CheckFinding {
    /// The name of the check.
    pub check: String,
    /// Whether the broker has seen all of it. Otherwise it is likely.
    pub certain: bool,
    /// What happened, in a sentence or two.
    pub summary: String,
    /// The topic of the record or committed offset, or "" for a group as a whole.
    pub topic: String,
    /// Its partition, or -1.
    pub partition: i32,
    /// Its offset, or -1.
    pub offset: i64,
    /// What the broker saw before, at most 20 lines in order.
    pub time_line: Vec<String>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CheckedApplication {
    /// The name of the check.
    pub check: String,
    /// `passed`, `failed` if there are findings, or `inconclusive`.
    pub outcome: String,
    /// Why the check could not decide, or not decide all of it.
    pub reasons: Vec<String>,
    /// The certain ones first.
    pub findings: Vec<CheckFinding>,
}

/// The committed offset of a partition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Committed {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
}

/// A key and a value, shown as with the format `json`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecodedPair {
    ///
    pub key: Shown,
    ///
    pub value: Shown,
}

/// A fault and the requests that it has hit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FaultHits {
    pub id: String,
    /// The number of requests that the fault has hit.
    pub fired: u64,
    /// The fields of the fault.
    pub fault: Fault,
    /// The newest 1000 requests.
    pub hits: Vec<JournalEntry>,
}

/// The state of a group at one moment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Group {
    pub group_id: String,
    /// `classic`, `consumer`, `share` or `streams`: the protocol of its members.
    pub r#type: String,
    /// Kafka's name of the state: `Empty`, `Stable`, `Dead`, or the name of a rebalancing state.
    pub state: String,
    pub is_stable: bool,
    /// The generation of a `classic` group, or the epoch of any other group.
    pub generation: i32,
    pub protocol: Option<String>,
    pub members: Vec<Member>,
}

/// A page of consumer group ids.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct GroupIds {
    pub groups: Vec<String>,
    pub next_after: Option<String>,
}

/// A header of a record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Header {
    pub name: String,
    /// Shown according to `format`.
    pub value: Shown,
}

/// Consecutive offsets that were delivered to a share group and have the same state.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InFlight {
    pub first_offset: i64,
    /// The last offset, included.
    pub last_offset: i64,
    /// Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`.
    pub state: String,
    /// The number of times that each record was delivered.
    pub delivery_count: i32,
    pub member_id: Option<String>,
}

/// An installed fault. Warnings appear only in the response to the request that installs the fault.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct InstalledFault {
    pub id: String,
    /// The number of requests that the fault has hit.
    pub fired: u64,
    /// The fields of the fault.
    pub fault: Fault,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Client requests and their responses, oldest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JournalEntries {
    /// The number of all requests, including filtered and dropped ones.
    pub count: u64,
    pub requests: Vec<JournalEntry>,
}

/// One request and its response.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JournalEntry {
    pub number: u64,
    /// Arrival by the broker's clock, in ms since the epoch.
    pub time: i64,
    /// Both addresses, the broker's first.
    pub connection: String,
    /// The id of the broker that received it.
    pub node: i32,
    pub client_host: String,
    pub client_id: Option<String>,
    pub api: String,
    pub version: i16,
    pub correlation_id: i32,
    pub request: Option<Map<String, Value>>,
    pub response: Option<Map<String, Value>>,
    /// The names of the errors in the response.
    pub errors: Vec<String>,
    pub duration_ms: Option<f64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub fault: Option<Fault>,
    pub chaos: Option<String>,
    pub failure: Option<String>,
    /// The records of a small request and its response, decoded, if the broker has schemas.
    #[serde(default)]
    pub records: Vec<DecodedPair>,
}

/// The state of the journal.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JournalInfo {
    pub is_kept: bool,
    /// The number of requests since the journal was started.
    pub count: u64,
}

/// The lag of a group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Lag {
    pub total: i64,
    pub partitions: Vec<PartitionLag>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Member {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub partitions: Option<Vec<Assigned>>,
}

/// A metric of a client.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Metric {
    pub name: String,
    pub value: f64,
}

/// A broker.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Node {
    pub node_id: i32,
    pub is_up: bool,
    /// The listening address, as HOST:PORT.
    pub address: String,
    pub rack: Option<String>,
}

/// The lag of a group in one partition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PartitionLag {
    pub topic: String,
    pub partition: i32,
    pub lag: i64,
}

/// The appended records, in order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ProducedRecords {
    pub records: Vec<RecordMetadata>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The metrics that a client has sent in one request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Push {
    pub client_instance_id: String,
    pub client_id: String,
    pub client_host: String,
    /// Time of arrival, in milliseconds since the epoch.
    pub timestamp: i64,
    /// Whether the client announced that it is closing.
    pub is_last: bool,
    pub metrics: Vec<Metric>,
}

/// A record as a consumer receives it, with details of its storage.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Record {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// ms since the epoch; -1 in format v0.
    pub timestamp: i64,
    /// `CreateTime`, `LogAppendTime`, or `NoTimestampType`.
    pub timestamp_type: String,
    /// Shown according to `format`.
    pub key: Shown,
    /// Shown according to `format`.
    pub value: Shown,
    pub headers: Vec<Header>,
    /// 0, 1 or 2.
    pub message_format: i32,
    pub codec: String,
    /// -1 for a producer that is not idempotent.
    pub producer_id: i64,
}

/// The partition and the offset of a new record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordMetadata {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
}

/// Some records of a topic, ordered by partition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordPart {
    pub records: Vec<Record>,
    /// The next `start` by partition, or empty after the last record.
    #[serde(default)]
    pub next_offsets: BTreeMap<String, i64>,
}

/// An access rule.
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

/// The state of a share-partition (KIP-932).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SharePartition {
    pub topic: String,
    pub partition: i32,
    pub start_offset: Option<i64>,
    pub lag: Option<i64>,
    /// The number of offsets acquired by members.
    pub acquired: i64,
    pub in_flight: Vec<InFlight>,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Snapshot {
    pub name: String,
    pub directory: String,
}

/// The state of the broker.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Status {
    pub status: String,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Topic {
    pub name: String,
    /// The id in Kafka's text format.
    pub topic_id: String,
    pub partitions: u32,
    /// The values that differ from the broker's defaults.
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
    pub is_internal: bool,
}

/// A page of topics, sorted by name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TopicList {
    pub topics: Vec<Topic>,
    pub next_after: Option<String>,
}
