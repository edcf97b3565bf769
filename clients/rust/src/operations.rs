use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use crate::client::{path, Query};
use crate::answers::*;
use crate::types::*;
use crate::{Client, Error, Format};

const NONE: Option<&()> = None;

fn given<'a>(pairs: Vec<(&'a str, Option<String>)>) -> Query<'a> {
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|each| each.to_string())
}

fn page(page: &Page) -> Query<'static> {
    given(vec![("after", page.after.clone()), ("limit", text(page.limit))])
}

/// A body with a count and the fields of another body.
#[derive(Serialize)]
struct Counted<'a, T: Serialize> {
    count: u32,
    #[serde(flatten)]
    wait: &'a T,
}

#[derive(Serialize)]
struct Produced<'a> {
    records: &'a [NewRecord],
    #[serde(flatten)]
    options: &'a ProduceOptions,
}

#[derive(Deserialize)]
struct Warnings {
    warnings: Vec<String>,
}

type Configs = BTreeMap<String, Value>;

impl Client {
    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.call("GET", path, vec![], NONE)
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.call("POST", path, vec![], Some(body))
    }

    /// Returns the list that is the only member of a response.
    fn list<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Vec<T>, Error> {
        let answer: BTreeMap<String, Vec<T>> = self.call(method, path, vec![], body)?;
        Ok(answer.into_values().next().unwrap_or_default())
    }

    fn nothing(&self, method: &'static str, path: &str, body: Option<&impl Serialize>) -> Result<(), Error> {
        self.ask(method, path, vec![], body).map(drop)
    }

    fn warnings(&self, path: &str, body: &impl Serialize) -> Result<Vec<String>, Error> {
        let answer: Option<Warnings> = self.post(path, body)?;
        Ok(answer.map(|each| each.warnings).unwrap_or_default())
    }

    /// Returns topics by name.
    pub fn list_topics(&self, part: &Page) -> Result<TopicList, Error> {
        self.call("GET", "/topics", page(part), NONE)
    }

    /// Creates a topic.
    pub fn create_topic(&self, topic: &NewTopic) -> Result<Topic, Error> {
        self.post("/topics", topic)
    }

    /// Returns one topic.
    pub fn describe_topic(&self, topic: &str) -> Result<Topic, Error> {
        self.get(&path(&["topics", topic]))
    }

    /// Deletes a topic and the offsets that groups have committed for it.
    pub fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        self.nothing("DELETE", &path(&["topics", topic]), NONE)
    }

    /// Appends records without a Kafka client. A missing topic is created.
    pub fn produce(
        &self,
        topic: &str,
        records: &[NewRecord],
        options: &ProduceOptions,
    ) -> Result<Vec<RecordMetadata>, Error> {
        let body = Produced { records, options };
        let answer: ProducedRecords = self.post(&path(&["topics", topic, "records"]), &body)?;
        Ok(answer.records)
    }

    /// Returns records of a topic as consumers read them.
    pub fn read_records(&self, topic: &str, options: &ReadOptions) -> Result<RecordPart, Error> {
        let query = given(vec![
            ("partition", text(options.partition)),
            ("start", text(options.start)),
            ("isolation", options.isolation.clone()),
            ("limit", text(options.limit)),
            ("format", Some(options.format.name())),
        ]);
        self.call("GET", &path(&["topics", topic, "records"]), query, NONE)
    }

    /// Waits until a topic has at least `count` matching committed records, and returns all of them.
    pub fn wait_for_records(
        &self,
        topic: &str,
        count: u32,
        wait: &RecordWait,
        format: Format,
    ) -> Result<Vec<Record>, Error> {
        let query = vec![("format", format.name())];
        let place = path(&["topics", topic, "records", "wait"]);
        let part: RecordPart = self.call("POST", &place, query, Some(&Counted { count, wait }))?;
        Ok(part.records)
    }

    /// Waits for a record and returns it. If none arrives, the error compares the expectation with the existing
    /// records.
    pub fn expect(&self, topic: &str, expected: &Expectation, format: Format) -> Result<Record, Error> {
        let query = vec![("format", format.name())];
        self.call("POST", &path(&["topics", topic, "records", "expect"]), query, Some(expected))
    }

    /// Returns an error with the code "unexpected" if a topic has a matching record. Returns a warning if the topic
    /// does not exist but a topic with a similar name does.
    pub fn expect_none(&self, topic: &str, absent: &Absence) -> Result<Vec<String>, Error> {
        self.warnings(&path(&["topics", topic, "records", "expect-none"]), absent)
    }

    /// Returns the ids of consumer groups.
    pub fn list_groups(&self, part: &Page) -> Result<GroupIds, Error> {
        self.call("GET", "/groups", page(part), NONE)
    }

    /// Returns the committed offsets of a group.
    pub fn committed_offsets(&self, group: &str) -> Result<Vec<Committed>, Error> {
        self.list("GET", &path(&["groups", group, "committed"]), NONE)
    }

    /// Returns the lag of a group in each partition with a committed offset or an assigned member.
    pub fn group_lag(&self, group: &str) -> Result<Lag, Error> {
        self.get(&path(&["groups", group, "lag"]))
    }

    /// Returns the partitions of a share group and their records in flight.
    pub fn share_partitions(&self, group: &str) -> Result<Vec<SharePartition>, Error> {
        self.list("GET", &path(&["groups", group, "share-partitions"]), NONE)
    }

    /// Waits until every member has its assignment and every subscribed partition has an owner.
    pub fn wait_until_stable(&self, group: &str, wait: &GroupWait) -> Result<Group, Error> {
        self.post(&path(&["groups", group, "wait-until-stable"]), wait)
    }

    /// Waits until a group has read and committed all records.
    pub fn wait_until_caught_up(&self, group: &str, wait: &CatchingUp) -> Result<Vec<Committed>, Error> {
        self.list("POST", &path(&["groups", group, "wait-until-caught-up"]), Some(wait))
    }

    /// Makes all members of a group rejoin.
    pub fn rebalance(&self, group: &str) -> Result<(), Error> {
        self.nothing("POST", &path(&["groups", group, "rebalance"]), NONE)
    }

    /// Returns the state, generation and members of a group. An unknown group is Dead.
    pub fn describe_group(&self, group: &str) -> Result<Group, Error> {
        self.get(&path(&["groups", group]))
    }

    /// Alters configuration keys of the broker. Null restores a default. Returns a warning for an unknown key.
    pub fn configure(&self, configs: &Configs) -> Result<Vec<String>, Error> {
        self.warnings("/configs", &json!({ "configs": configs }))
    }

    /// Returns the configuration of a topic, including the broker's defaults.
    pub fn read_topic_configs(&self, topic: &str) -> Result<BTreeMap<String, Option<String>>, Error> {
        let mut answer: BTreeMap<String, BTreeMap<String, Option<String>>> =
            self.get(&path(&["topics", topic, "configs"]))?;
        Ok(answer.remove("configs").unwrap_or_default())
    }

    /// Alters configuration keys of a topic. Null restores a default.
    pub fn configure_topic(&self, topic: &str, configs: &Configs) -> Result<(), Error> {
        self.nothing("POST", &path(&["topics", topic, "configs"]), Some(&json!({ "configs": configs })))
    }

    /// Sets or removes client quotas.
    pub fn set_quota(&self, quota: &Quota) -> Result<(), Error> {
        self.nothing("POST", "/quotas", Some(quota))
    }

    /// Returns all access rules.
    pub fn list_acls(&self) -> Result<Vec<Rule>, Error> {
        self.list("GET", "/acls", NONE)
    }

    /// Allows or denies operations, and returns a rule for each operation.
    pub fn create_acls(&self, rule: &NewRule) -> Result<Vec<Rule>, Error> {
        self.list("POST", "/acls", Some(rule))
    }

    /// Deletes all access rules.
    pub fn delete_acls(&self) -> Result<(), Error> {
        self.nothing("DELETE", "/acls", NONE)
    }

    /// Returns the latest metrics that clients have sent about themselves.
    pub fn read_telemetry(&self) -> Result<Vec<Push>, Error> {
        self.list("GET", "/telemetry", NONE)
    }

    /// Returns the broker's time in milliseconds since the epoch.
    pub fn read_clock(&self) -> Result<i64, Error> {
        let now: BTreeMap<String, i64> = self.get("/clock")?;
        Ok(now.get("now_ms").copied().unwrap_or_default())
    }

    /// Advances the broker's clock and returns the new time in milliseconds, like [`Client::read_clock`].
    pub fn advance_clock(&self, by: Duration) -> Result<i64, Error> {
        let now: BTreeMap<String, i64> = self.post("/clock/advance", &json!({ "seconds": by.as_secs_f64() }))?;
        Ok(now.get("now_ms").copied().unwrap_or_default())
    }

    /// Runs retention now and returns the number of deleted segments.
    pub fn run_retention(&self) -> Result<u64, Error> {
        let done: BTreeMap<String, u64> = self.call("POST", "/retention/run", vec![], NONE)?;
        Ok(done.get("deleted_segments").copied().unwrap_or_default())
    }

    /// Compacts all records produced so far in a topic, or in all compacted topics for `None`.
    pub fn compact(&self, topic: Option<&str>) -> Result<(), Error> {
        self.nothing("POST", "/compact", Some(&json!({ "topic": topic })))
    }

    /// Deletes all records, groups, transactions and faults, and all topics unless `keep_topics` is set. Topics given
    /// to the broker at its start are created again. Connections and snapshots stay.
    pub fn reset(&self, keep_topics: bool) -> Result<(), Error> {
        self.reset_keeping(keep_topics, false)
    }

    /// Like [`Client::reset`], and can also keep the subjects of the schema registry.
    pub fn reset_keeping(&self, topics: bool, schemas: bool) -> Result<(), Error> {
        self.nothing("POST", "/reset", Some(&json!({ "keep_topics": topics, "keep_schemas": schemas })))
    }

    /// Returns the snapshots that were taken over HTTP.
    pub fn list_snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        self.list("GET", "/snapshots", NONE)
    }

    /// Takes a snapshot of all topics, records, groups and transactions.
    pub fn take_snapshot(&self, snapshot: &NewSnapshot) -> Result<Snapshot, Error> {
        self.post("/snapshots", snapshot)
    }

    /// Replaces the broker's state with a snapshot.
    pub fn restore_snapshot(&self, name: &str) -> Result<(), Error> {
        self.nothing("POST", &path(&["snapshots", name, "restore"]), NONE)
    }

    /// Removes a snapshot. Its directory is deleted unless the request that took the snapshot named it.
    pub fn delete_snapshot(&self, name: &str) -> Result<(), Error> {
        self.nothing("DELETE", &path(&["snapshots", name]), NONE)
    }

    /// Replaces the broker's state with the snapshot in a directory on the broker's machine.
    pub fn restore_directory(&self, directory: &str) -> Result<(), Error> {
        self.nothing("POST", "/restore", Some(&json!({ "directory": directory })))
    }

    /// Returns all brokers, up or down.
    pub fn list_brokers(&self) -> Result<Vec<Node>, Error> {
        self.list("GET", "/brokers", NONE)
    }

    /// Stops a broker. Its connections are closed, and other brokers lead its partitions.
    pub fn stop_broker(&self, node_id: i32) -> Result<Node, Error> {
        self.call("POST", &path(&["brokers", &node_id.to_string(), "stop"]), vec![], NONE)
    }

    /// Starts a broker again at the same address.
    pub fn start_broker(&self, node_id: i32) -> Result<Node, Error> {
        self.call("POST", &path(&["brokers", &node_id.to_string(), "start"]), vec![], NONE)
    }

    /// Returns the id of the leader of a partition, or `None` while there is none.
    pub fn read_leader(&self, topic: &str, partition: i32) -> Result<Option<i32>, Error> {
        let leader: BTreeMap<String, Option<i32>> = self.get(&leader_of(topic, partition))?;
        Ok(leader.get("node_id").copied().flatten())
    }

    /// Makes another broker the leader of a partition.
    pub fn move_leader(&self, topic: &str, partition: i32, node_id: i32) -> Result<(), Error> {
        self.nothing("PUT", &leader_of(topic, partition), Some(&json!({ "node_id": node_id })))
    }

    /// Returns whether a journal is kept.
    pub fn read_journal(&self) -> Result<JournalInfo, Error> {
        self.get("/journal")
    }

    /// Starts a journal that keeps the newest requests, at most `capacity` of them, or 10,000 for `None`.
    pub fn begin_journal(&self, capacity: Option<u32>) -> Result<JournalInfo, Error> {
        let body: BTreeMap<_, _> = capacity.map(|each| ("capacity", each)).into_iter().collect();
        self.call("PUT", "/journal", vec![], Some(&body))
    }

    /// Stops keeping a journal.
    pub fn end_journal(&self) -> Result<(), Error> {
        self.nothing("DELETE", "/journal", NONE)
    }

    /// Returns client requests and their responses. The broker must keep a journal.
    pub fn list_requests(&self, filter: &RequestFilter) -> Result<JournalEntries, Error> {
        let query = given(vec![
            ("api", filter.api.clone()),
            ("client_id", filter.client_id.clone()),
            ("topic", filter.topic.clone()),
            ("group", filter.group.clone()),
            ("error", filter.error.clone()),
            ("after", text(filter.after)),
            ("limit", text(filter.limit)),
        ]);
        self.call("GET", "/requests", query, NONE)
    }

    /// Removes all recorded requests. Their numbers are not reused.
    pub fn forget_requests(&self) -> Result<(), Error> {
        self.nothing("DELETE", "/requests", NONE)
    }

    /// Waits for at least `count` matching requests, and returns all of them.
    pub fn wait_for_requests(&self, count: u32, wait: &RequestWait) -> Result<JournalEntries, Error> {
        self.post("/requests/wait", &Counted { count, wait })
    }

    /// Returns the installed faults. Of several matching faults, the first takes effect.
    pub fn list_faults(&self) -> Result<Vec<InstalledFault>, Error> {
        self.list("GET", "/faults", NONE)
    }

    /// Makes the broker misbehave as a Kafka cluster may, until `stop_chaos`. Chaos that is running ends first.
    pub fn start_chaos(&self, chaos: &NewChaos) -> Result<ChaosRun, Error> {
        self.post("/chaos", chaos)
    }

    /// Returns what has happened so far.
    pub fn read_chaos(&self) -> Result<ChaosRun, Error> {
        self.get("/chaos")
    }

    /// Begins the quiet phase: nothing new goes wrong, what is late is applied, and what is held is released.
    pub fn settle_chaos(&self) -> Result<ChaosRun, Error> {
        self.post("/chaos/settle", &json!({}))
    }

    /// Begins the quiet phase, ends the chaos, and returns what has happened.
    pub fn stop_chaos(&self) -> Result<ChaosRun, Error> {
        self.call("DELETE", "/chaos", vec![], NONE)
    }

    /// Judges an application by what the broker saw of it. A test fails unless the outcome is "passed".
    pub fn check_application(&self, checking: &Checking) -> Result<CheckedApplication, Error> {
        self.post("/check", checking)
    }

    /// Installs a fault. It stays until it is removed or has hit `times` requests.
    pub fn add_fault(&self, fault: &Fault) -> Result<InstalledFault, Error> {
        self.post("/faults", fault)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) -> Result<(), Error> {
        self.nothing("DELETE", "/faults", NONE)
    }

    /// Returns a fault and the requests that it has hit.
    pub fn read_fault(&self, id: &str) -> Result<FaultHits, Error> {
        self.get(&path(&["faults", id]))
    }

    /// Removes a fault and returns the requests that it has hit.
    pub fn remove_fault(&self, id: &str) -> Result<FaultHits, Error> {
        self.call("DELETE", &path(&["faults", id]), vec![], NONE)
    }

    /// Returns the version of the broker and the addresses for its clients.
    pub fn about(&self) -> Result<BrokerInfo, Error> {
        self.get("/")
    }

    /// Returns "ok" while the broker's event loop is running, and an error otherwise.
    pub fn healthz(&self) -> Result<Status, Error> {
        self.get("/healthz")
    }

    /// Returns "ok" while clients can connect, and "down" while no broker is up.
    pub fn readyz(&self) -> Result<Status, Error> {
        self.get("/readyz").or_else(|error| match &error {
            Error::Refused(problem) => serde_json::from_slice(&problem.body).map_err(|_| error),
            Error::Failed(_) => Err(error),
        })
    }

    /// Returns the broker's metrics in Prometheus' text format.
    pub fn metrics(&self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.ask("GET", "/metrics", vec![], NONE)?).into_owned())
    }
}

fn leader_of(topic: &str, partition: i32) -> String {
    path(&["topics", topic, "partitions", &partition.to_string(), "leader"])
}
