//! Tests of all operations, against a broker that the tests start.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use minibroker::*;
use serde_json::{json, Value};

/// The broker that all tests share one after another, with a token, two nodes and a journal. It ends with the process.
fn begin() -> MutexGuard<'static, Broker> {
    static SHARED: OnceLock<Mutex<Broker>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        let options = Broker::options().topic("given:2").brokers(2).registry().token("secret");
        Mutex::new(options.arg("--journal").arg("--set").arg(authorizer).start().unwrap())
    });
    let broker = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    broker.reset(false).unwrap();
    broker
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().code().unwrap_or_default().into()
}

fn configs(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

fn headers(name: &str, value: Payload) -> BTreeMap<String, Payload> {
    [(name.to_string(), value)].into()
}

/// Sends the first node an ApiVersions request of version 0, which Kafka clients send first.
fn ask(broker: &Broker, client_id: &str) {
    let mut connection = TcpStream::connect(broker.bootstrap_servers.split(',').next().unwrap()).unwrap();
    let mut frame = (10 + client_id.len() as u32).to_be_bytes().to_vec();
    frame.extend([0, 18, 0, 0, 0, 0, 0, 7]);
    frame.extend((client_id.len() as u16).to_be_bytes());
    frame.extend(client_id.bytes());
    connection.write_all(&frame).unwrap();
    let mut size = [0; 4];
    connection.read_exact(&mut size).unwrap();
    connection.read_exact(&mut vec![0; u32::from_be_bytes(size) as usize]).unwrap();
}

const NO_WAIT: Option<Duration> = Some(Duration::ZERO);
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn the_program_of_the_readme() -> Result<(), Error> {
    let broker = Broker::options().topic("orders:3").start()?;
    broker.produce("orders", &[NewRecord::new("1", json!({"id": 1}))], &ProduceOptions::default())?;
    let expected = Expectation { value: Some(json!({"id": 1}).into()), ..Default::default() };
    let record = broker.expect("orders", &expected, Format::Json)?;
    assert_eq!(record.topic, "orders");
    Ok(())
}

#[test]
fn schemas() {
    let broker = begin();
    let url = format!("{}/subjects/orders-value/versions", broker.registry_url.as_ref().unwrap());
    let schema = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}"#;
    let body = json!({ "schema": schema }).to_string();
    ureq::post(&url).header("Content-Type", "application/json").send(&body).unwrap();
    broker.reset_keeping(false, true).unwrap();
    let options = ProduceOptions { schema: some("orders-value"), key_schema: some("orders-value"), ..Default::default() };
    let record = NewRecord::new(json!({"id": 6}), json!({"id": 7}));
    broker.produce("orders", &[record], &options).unwrap();
    let expected = Expectation { value: Some(json!({"id": 7}).into()), ..Default::default() };
    let found = broker.expect("orders", &expected, Format::Json).unwrap();
    let id: BTreeMap<String, i32> = found.key.decode().unwrap();
    assert_eq!(id["id"], 6);
}

#[test]
fn topics() {
    let broker = begin();
    let made = broker
        .create_topic(&NewTopic {
            name: some("orders"),
            partitions: Some(3),
            replication_factor: Some(2),
            configs: configs(&[("retention.ms", json!(1000))]),
            ..Default::default()
        })
        .unwrap();
    assert_eq!((made.partitions, made.configs["retention.ms"].as_str()), (3, "1000"));
    let fresh = broker.create_topic(&NewTopic { prefix: some("test-"), ..Default::default() }).unwrap();
    assert!(fresh.name.starts_with("test-"));
    let page = broker.list_topics(&Page { after: some("given"), limit: Some(1) }).unwrap();
    assert_eq!((page.topics[0].name.as_str(), page.next_after.as_deref()), ("orders", Some("orders")));
    assert_eq!(broker.describe_topic("orders").unwrap(), made);
    broker.configure_topic("orders", &configs(&[("retention.ms", json!(5))])).unwrap();
    assert_eq!(broker.read_topic_configs("orders").unwrap()["retention.ms"].as_deref(), Some("5"));
    broker.delete_topic("orders").unwrap();
    assert!(broker.describe_topic("orders").unwrap_err().is_not_found());
}

#[test]
fn records() {
    let broker = begin();
    let sent = [
        NewRecord {
            partition: Some(0),
            timestamp: Some(5),
            headers: vec![("trace".into(), "a".into()), ("trace".into(), vec![0xff].into())],
            ..NewRecord::new("k", json!({"id": 1, "state": "new"}))
        },
        NewRecord { partition: Some(0), ..NewRecord::new(vec![0xfe], Payload::Null) },
        NewRecord { partition: Some(0), ..NewRecord::new(Payload::Null, json!("quoted")) },
    ];
    let options = ProduceOptions { message_format: some("v2"), codec: some("gzip"), ..Default::default() };
    let places = broker.produce("given", &sent, &options).unwrap();
    assert_eq!(places[1], RecordMetadata { topic: "given".into(), partition: 0, offset: 1 });
    assert!(broker.produce("given", &[], &options).unwrap().is_empty()); // The response has a warning.

    let read = ReadOptions {
        partition: Some(0),
        start: Some(1),
        isolation: some("read_uncommitted"),
        limit: Some(10),
        format: Format::Base64,
    };
    let all = broker.read_records("given", &read).unwrap().records;
    assert_eq!(all[0].key.bytes().unwrap(), Some(vec![0xfe]));
    assert!(all[0].value.is_null());
    assert_eq!(all[1].value.bytes().unwrap().as_deref(), Some(b"\"quoted\"".as_slice()));
    let part = broker.read_records("given", &ReadOptions { limit: Some(1), ..Default::default() }).unwrap();
    assert_eq!(part.next_offsets["0"], 1);

    let expected = Expectation {
        key: Some("k".into()),
        value: Some(json!({"id": 1}).into()),
        headers: headers("trace", "a".into()),
        partition: Some(0),
        timeout: PATIENCE,
    };
    let record = broker.expect("given", &expected, Format::Json).unwrap();
    assert_eq!(record.value.decode::<BTreeMap<String, Value>>().unwrap()["state"], "new");
    assert_eq!(record.headers[0].value.text(), Some("a"));
    let null = Expectation { value: Some(Payload::Null), key: Some(vec![0xfe].into()), ..Default::default() };
    broker.expect("given", &null, Format::Text).unwrap();

    let matching = Some(Matching {
        key: Some("k".into()),
        value: Some(json!({"id": 1}).into()),
        headers: headers("trace", "a".into()),
        partition: Some(0),
        offset: Some(0),
        timestamp: Some(5),
    });
    let wait = RecordWait { matching, timeout: None };
    assert_eq!(broker.wait_for_records("given", 1, &wait, Format::Text).unwrap()[0].timestamp, 5);
    let in_vain = RecordWait { timeout: NO_WAIT, ..Default::default() };
    assert!(broker.wait_for_records("given", 4, &in_vain, Format::Text).unwrap_err().is_timeout());

    assert!(broker.expect_none("givn", &Absence::default()).unwrap()[0].contains("given"));
    let absent = Absence {
        key: Some("z".into()),
        value: Some("z".into()),
        headers: headers("z", Payload::Null),
        partition: Some(1),
        within: Some(Duration::from_millis(1)),
    };
    assert!(broker.expect_none("given", &absent).unwrap().is_empty());
    assert_eq!(
        code(broker.expect_none("given", &Absence { key: Some("k".into()), ..Default::default() })),
        "unexpected"
    );
}

#[test]
fn groups() {
    let broker = begin();
    assert!(broker.list_groups(&Page { after: some("a"), limit: Some(5) }).unwrap().groups.is_empty());
    for group in ["team/a", "a/lag", "/committed", "ä b"] {
        let found = broker.describe_group(group).unwrap();
        assert_eq!((found.group_id.as_str(), found.state.as_str()), (group, "Dead"));
    }
    assert!(broker.committed_offsets("team/a").unwrap().is_empty());
    let lag = broker.group_lag("team/a").unwrap();
    assert_eq!(lag.total, 0);
    assert_eq!(lag.warnings.len(), 1);
    assert!(broker.share_partitions("team/a").unwrap().is_empty());
    let stable = GroupWait { members: Some(1), timeout: NO_WAIT };
    assert!(broker.wait_until_stable("team/a", &stable).unwrap_err().is_timeout());
    let caught_up = CatchingUp { topic: some("given"), timeout: NO_WAIT };
    assert!(broker.wait_until_caught_up("team/a", &caught_up).unwrap_err().is_timeout());
    assert_eq!(code(broker.rebalance("team/a")), "conflict");
}

#[test]
fn checks() {
    let broker = begin();
    let topics = vec!["given".to_string()];
    let checking = Checking {
        check: "no_zombie_writes".to_string(),
        inputs: topics.clone(),
        outputs: topics,
        key: some("value"),
        output_key: some("json:id"),
        expected: Some(BTreeMap::from([("a".to_string(), vec!["b".to_string()])])),
        group: some("team"),
        instances: Some(BTreeMap::from([("c".to_string(), "d".to_string())])),
        timeout: Some(Duration::from_secs(1)),
    };
    let checked = broker.check_application(&checking).unwrap();
    assert_eq!(checked.outcome, "passed");
    assert!(checked.findings.is_empty());
}

#[test]
fn chaos() {
    let broker = begin();
    let new = NewChaos {
        seed: Some(7),
        profile: some("network"),
        only: vec!["answer-late".to_string()],
        without: vec!["throttled".to_string()],
        steps: None,
    };
    let started = broker.start_chaos(&new).unwrap();
    assert_eq!((started.seed, started.profile.as_str()), (Some(7), "network"));
    assert!(broker.read_chaos().unwrap().steps.is_empty());
    assert!(!broker.settle_chaos().unwrap().is_felt);
    assert_eq!(broker.stop_chaos().unwrap().report.len(), 2);
    let steps = Some(json!([]));
    assert_eq!(broker.start_chaos(&NewChaos { steps, ..NewChaos::default() }).unwrap().seed, None);
    broker.stop_chaos().unwrap();
}

#[test]
fn settings() {
    let broker = begin();
    let keys = [("log.retention.ms", json!(60000)), ("log.retentoin.ms", json!(1))];
    assert_eq!(broker.configure(&configs(&keys)).unwrap().len(), 1);
    broker
        .set_quota(&Quota {
            entity: [("user".into(), some("alice"))].into(),
            limits: [("producer_byte_rate".into(), Some(1e6))].into(),
        })
        .unwrap();
    let rule = |operation: &str| NewRule {
        principal: "alice".into(),
        operations: vec![operation.into()],
        ..Default::default()
    };
    let denied =
        NewRule { permission: some("deny"), topic: some("o"), prefixed: true, host: some("10.0.0.1"), ..rule("read") };
    let rules = [
        denied,
        NewRule { group: some("g"), ..rule("read") },
        NewRule { transactional_id: some("t"), ..rule("write") },
        NewRule { cluster: true, ..rule("alter") },
    ];
    for rule in &rules {
        assert_eq!(broker.create_acls(rule).unwrap()[0].principal, "User:alice");
    }
    assert_eq!(broker.list_acls().unwrap().len(), 4);
    broker.delete_acls().unwrap();
    assert!(broker.read_telemetry().unwrap().is_empty());
}

#[test]
fn time_and_snapshots() {
    let broker = begin();
    let before = broker.read_clock().unwrap();
    assert!(broker.advance_clock(Duration::from_secs(3600)).unwrap() - before >= 3_600_000);
    assert_eq!(broker.run_retention().unwrap(), 0);
    let compacted = configs(&[("cleanup.policy", json!("compact"))]);
    broker.create_topic(&NewTopic { name: some("c"), configs: compacted, ..Default::default() }).unwrap();
    broker.compact(Some("c")).unwrap();
    broker.compact(None).unwrap();

    let kept = Expectation { value: Some("kept".into()), ..Default::default() };
    let record = NewRecord { value: "kept".into(), ..Default::default() };
    broker.produce("given", &[record], &ProduceOptions::default()).unwrap();
    let folder = std::env::temp_dir().join(format!("minibroker-test-{}", std::process::id()));
    let snapshot = NewSnapshot { name: some("a/restore"), directory: folder.to_str().map(Into::into) };
    let taken = broker.take_snapshot(&snapshot).unwrap();
    broker.reset(true).unwrap();
    broker.restore_snapshot("a/restore").unwrap();
    broker.expect("given", &kept, Format::Text).unwrap();
    assert_eq!(broker.list_snapshots().unwrap(), std::slice::from_ref(&taken));
    broker.delete_snapshot("a/restore").unwrap();
    broker.reset(false).unwrap();
    broker.restore_directory(&taken.directory).unwrap();
    broker.expect("given", &kept, Format::Text).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn brokers_and_health() {
    let broker = begin();
    let nodes = broker.list_brokers().unwrap();
    broker.move_leader("given", 0, nodes[1].node_id).unwrap();
    assert_eq!(broker.read_leader("given", 0).unwrap(), Some(nodes[1].node_id));
    for node in &nodes {
        assert!(!broker.stop_broker(node.node_id).unwrap().is_up);
    }
    assert_eq!(broker.readyz().unwrap().status, "down");
    for node in &nodes {
        assert!(broker.start_broker(node.node_id).unwrap().is_up);
    }
    assert_eq!(broker.readyz().unwrap().status, "ok");
    assert_eq!(broker.healthz().unwrap().status, "ok");
    let about = broker.about().unwrap();
    assert_eq!(
        (about.bootstrap_servers.as_str(), about.version.as_str()),
        (broker.bootstrap_servers.as_str(), VERSION)
    );
    assert!(broker.metrics().unwrap().contains("kafka_server_"));
}

#[test]
fn faults_and_journal() {
    let broker = begin();
    assert!(broker.begin_journal(Some(100)).unwrap().is_kept);
    let of_rust = Fault {
        api: some("ApiVersions"),
        client_id: some("rust-*"),
        delay_ms: Some(1.0),
        times: Some(1),
        ..Default::default()
    };
    let id = broker.add_fault(&of_rust).unwrap().id;
    ask(&broker, "rust-first");
    ask(&broker, "rust-test");
    let wait =
        RequestWait { api: some("ApiVersions"), client_id: some("rust-*"), timeout: PATIENCE, ..Default::default() };
    let entries = broker.wait_for_requests(2, &wait).unwrap().requests;
    assert_eq!(entries[1].client_id.as_deref(), Some("rust-test"));
    let mut filter = RequestFilter {
        api: some("ApiVersions"),
        client_id: some("rust-*"),
        after: Some(entries[0].number),
        limit: Some(5),
        ..Default::default()
    };
    assert_eq!(broker.list_requests(&filter).unwrap().requests.len(), 1);
    (filter.topic, filter.group, filter.error) = (some("given"), some("g"), some("NOT_COORDINATOR"));
    assert!(broker.list_requests(&filter).unwrap().requests.is_empty());
    let none = RequestWait {
        topic: some("given"),
        group: some("g"),
        error: some("16"),
        timeout: NO_WAIT,
        ..Default::default()
    };
    assert!(broker.wait_for_requests(1, &none).unwrap_err().is_timeout());

    let hits = broker.read_fault(&id).unwrap();
    assert_eq!((hits.fired, hits.hits[0].api.as_str()), (1, "ApiVersions"));
    assert_eq!(broker.remove_fault(&id).unwrap().fault, of_rust);
    let of = |api: &str| Fault { api: some(api), ..Default::default() };
    let faults = [
        Fault {
            versions: Some(json!("0-3")),
            node: Some(1),
            topic: some("given"),
            partition: Some(0),
            nth: Some(2),
            error: Some(json!("NOT_LEADER_OR_FOLLOWER")),
            ..Default::default()
        },
        Fault {
            group: some("g"),
            after: Some(1),
            probability: Some(0.5),
            seed: Some(0),
            drop: some("before"),
            ..of("JoinGroup")
        },
        Fault { transactional_id: some("t"), disconnect: some("after"), ..of("EndTxn") },
        Fault { late: Some(2), ..of("OffsetCommit") },
        Fault { error: Some(json!(20)), applied: Some(true), ..of("Produce") },
        Fault { fetch_bytes: Some(0), jitter_ms: Some(1.0), bytes_per_second: Some(1000), ..of("Fetch") },
        Fault { black_hole: Some(true), ..of("Heartbeat") },
        Fault { truncate: Some(0), ..of("Heartbeat") },
        Fault { corrupt: some("records"), ..of("Fetch") },
        Fault { stale_metadata: Some(1), throttle_ms: Some(5), slice_bytes: Some(1000), ..of("Metadata") },
    ];
    for fault in &faults {
        broker.add_fault(fault).unwrap();
    }
    assert_eq!(broker.list_faults().unwrap().len(), 10);
    broker.clear_faults().unwrap();
    broker.forget_requests().unwrap();
    broker.end_journal().unwrap();
    assert!(!broker.read_journal().unwrap().is_kept);
}

#[test]
fn errors_name_their_cause() {
    let broker = begin();
    let message = "there is no topic 'gvien'; topics: given; did you mean given?";
    let expected = format!("minibroker: GET /topics/gvien: 404 not_found: {message}");
    assert_eq!(broker.describe_topic("gvien").unwrap_err().to_string(), expected);
    let stranger = Client::new(broker.url(), Some("wrong")).list_brokers().unwrap_err();
    assert!(stranger.to_string().contains("401 unauthorized: the token is wrong"));
    let refused = Client::new("http://127.0.0.1:1", None).list_brokers().unwrap_err();
    assert!(refused.to_string().starts_with("minibroker: no answer of the control plane at http://127.0.0.1:1: "));
}

#[test]
fn a_broker_that_cannot_start_is_an_error_with_its_words() {
    let error = Broker::options().topic("a:0").quiet().start().unwrap_err().to_string();
    assert!(error.contains("exit status: 1"), "{error}");
    assert!(error.contains("topic 'a': Number of partitions"), "{error}");
    let absent = Broker::options().command(["no-such-program"]).start().unwrap_err();
    assert!(absent.to_string().contains("MINIBROKER_COMMAND"));
}

#[test]
fn a_broker_is_stopped_once() {
    let mut broker = Broker::options().start().unwrap();
    broker.stop().unwrap();
    broker.stop().unwrap();
    assert!(broker.healthz().is_err());
}
