"use strict";

const assert = require("node:assert/strict");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { mkdtempSync } = require("node:fs");
const { after, before, beforeEach, test } = require("node:test");
const { ControlClient, bytes, start } = require("../index.js");
const { version } = require("../package.json");

let broker, control;

before(async () => {
  const authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
  const args = ["--journal", "--set", authorizer];
  broker = await start({ topics: ["given:2"], brokers: 2, registry: true, token: "secret", args, stderr: null });
  control = broker.control;
});

after(() => broker?.stop());

beforeEach(() => control.reset({ keep_topics: false }));

/** Sends an ApiVersions request of version 0, which Kafka clients send first. */
function ask(clientId) {
  const [host, port] = broker.bootstrapServers.split(",")[0].split(":");
  const frame = Buffer.alloc(14 + clientId.length);
  frame.writeInt32BE(10 + clientId.length, 0);
  frame.writeInt16BE(18, 4);
  frame.writeInt32BE(7, 8);
  frame.writeInt16BE(clientId.length, 12);
  frame.write(clientId, 14);
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(port), host, () => socket.write(frame));
    socket.on("error", reject);
    socket.once("data", () => socket.end(resolve));
  });
}

const fails = (code) => (error) => error.code === code;

test("the program of the README", async () => {
  const broker = await start({ topics: ["orders:3"] });
  await broker.control.produce("orders", [{ key: "1", value: { id: 1 } }]);
  const record = await broker.control.expect("orders", { value: { id: 1 } }, { format: "json" });
  await broker.stop();
  assert.deepEqual(record.value, { id: 1 });
});

test("arguments that the service would not understand", async () => {
  await assert.rejects(control.expect("given", "x"), /"x" is not an object such as/);
  await assert.rejects(control.expect("given", { key: "1" }, { timeout: 1 }), /timeout: there is no such option/);
  for (const wanted of [3, null]) {
    await assert.rejects(control.waitForRecords("given", wanted), /is not an object such as \{ count/);
  }
  await assert.rejects(control.waitForRecords("given", { count: 1 }, { formt: "json" }), /formt: there is no such option/);
});

test("the stack of an error begins in the program that called", async () => {
  try {
    await control.expect("given", { value: "missing", timeout: 0 });
    assert.fail("there is no such record");
  } catch (error) {
    assert.match(error.stack, /\n +at async [^\n]*minibroker\.test\.js/);
    assert.doesNotMatch(error.stack, /client\.js/);
  }
});

test("schemas", async () => {
  const schema = JSON.stringify({ type: "record", name: "Order", fields: [{ name: "id", type: "int" }] });
  const response = await fetch(`${broker.registryUrl}/subjects/orders-value/versions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ schema }),
  });
  assert.equal(response.status, 200);
  await control.reset({ keep_schemas: true });
  const options = { schema: "orders-value", key_schema: "orders-value" };
  await control.produce("orders", [{ key: { id: 6 }, value: { id: 7 } }], options);
  const { key, value } = await control.expect("orders", { value: { id: 7 } }, { format: "json" });
  assert.deepEqual([key, value], [{ id: 6 }, { id: 7 }]);
});

test("topics", async () => {
  const configs = { "retention.ms": 1000 };
  const made = await control.createTopic({ name: "orders", partitions: 3, replication_factor: 2, configs });
  assert.deepEqual([made.partitions, made.configs["retention.ms"]], [3, "1000"]);
  assert.match((await control.createTopic({ prefix: "test-" })).name, /^test-/);
  const page = await control.listTopics({ after: "given", limit: 1 });
  assert.deepEqual([page.topics[0].name, page.next_after], ["orders", "orders"]);
  assert.deepEqual(await control.describeTopic("orders"), made);
  await control.configureTopic("orders", { "retention.ms": 5 });
  assert.equal((await control.readTopicConfigs("orders"))["retention.ms"], "5");
  assert.equal(await control.deleteTopic("orders"), undefined);
  await assert.rejects(control.describeTopic("orders"), fails("not_found"));
});

test("records", async () => {
  const headers = [["trace", "a"], ["trace", Buffer.from([0xff])]];
  const places = await control.produce(
    "given",
    [
      { key: "k", value: { id: 1, state: "new" }, headers, partition: 0, timestamp: 5 },
      { key: Buffer.from([0xfe]), value: null, partition: 0 },
      { value: { json: "quoted" }, partition: 0 },
    ],
    { message_format: "v2", codec: "gzip" },
  );
  assert.deepEqual(places[1], { topic: "given", partition: 0, offset: 1 });

  const options = { partition: 0, start: 1, isolation: "read_uncommitted", limit: 10, format: "base64" };
  const { records } = await control.readRecords("given", options);
  assert.deepEqual(bytes(records[0].key), Buffer.from([0xfe]));
  assert.equal(bytes(records[0].value), null);
  assert.equal(bytes(records[1].value).toString(), '"quoted"');
  assert.deepEqual((await control.readRecords("given", { limit: 1 })).next_offsets["0"], 1);

  const expected = { key: "k", value: { id: 1 }, headers: { trace: "a" }, partition: 0 };
  const record = await control.expect("given", { ...expected, timeout: 20 }, { format: "json" });
  assert.equal(record.value.state, "new");
  assert.equal(record.headers[0].value, "a");
  await control.expect("given", { key: Buffer.from([0xfe]), value: null });
  const matching = { ...expected, offset: 0, timestamp: 5 };
  const found = await control.waitForRecords("given", { count: 1, matching, timeout: 20 }, { format: "text" });
  assert.equal(bytes(found[0].key).toString(), "k");
  await assert.rejects(control.waitForRecords("given", { count: 4, timeout: 0 }), fails("timeout"));

  assert.match((await control.expectNone("givn"))[0], /given/);
  const absent = { key: "z", value: "z", headers: { z: null }, partition: 1, within: 0.001 };
  assert.deepEqual(await control.expectNone("given", absent), []);
  await assert.rejects(control.expectNone("given", { key: "k" }), fails("unexpected"));
});

test("groups", async () => {
  assert.deepEqual((await control.listGroups({ after: "a", limit: 5 })).groups, []);
  assert.equal((await control.describeGroup("team/a")).state, "Dead");
  for (const group of ["a/lag", "/committed"]) {
    assert.equal((await control.describeGroup(group)).group_id, group);
  }
  assert.deepEqual(await control.committedOffsets("team/a"), []);
  const lag = await control.groupLag("team/a");
  assert.equal(lag.total, 0);
  assert.equal(lag.warnings.length, 1);
  assert.deepEqual(await control.sharePartitions("team/a"), []);
  await assert.rejects(control.waitUntilStable("team/a", { members: 1, timeout: 0 }), fails("timeout"));
  await assert.rejects(control.waitUntilCaughtUp("team/a", { topic: "given", timeout: 0 }), fails("timeout"));
  await assert.rejects(control.rebalance("team/a"), fails("conflict"));
});

test("checks", async () => {
  const topics = ["given"];
  const about = { key: "value", output_key: "json:id", expected: { a: ["b"] }, group: "team", instances: { c: "d" } };
  const checking = { check: "no_zombie_writes", inputs: topics, outputs: topics, timeout: 1, ...about };
  const checked = await control.checkApplication(checking);
  assert.deepEqual([checked.outcome, checked.findings], ["passed", []]);
});

test("chaos", async () => {
  const fields = { seed: 7, profile: "network", only: ["answer-late"], without: ["throttled"], steps: null };
  const started = await control.startChaos(fields);
  assert.deepEqual([started.seed, started.profile], [7, "network"]);
  assert.deepEqual((await control.readChaos()).steps, []);
  assert.equal((await control.settleChaos()).is_felt, false);
  const stopped = await control.stopChaos();
  assert.equal(stopped.report.length, 2);
  assert.equal((await control.startChaos({ steps: stopped })).seed, null);
  await control.stopChaos();
});

test("settings", async () => {
  assert.equal((await control.configure({ "log.retention.ms": 60000, "log.retentoin.ms": 1 })).length, 1);
  assert.deepEqual(await control.configure({ "log.retention.ms": null }), []);
  await control.setQuota({ entity: { user: "alice" }, limits: { producer_byte_rate: 1e6 } });
  const rules = [
    { permission: "deny", operations: ["read"], topic: "o", prefixed: true, host: "10.0.0.1" },
    { operations: ["read"], group: "g" },
    { operations: ["write"], transactional_id: "t" },
    { operations: ["alter"], cluster: true },
  ];
  for (const rule of rules) {
    assert.equal((await control.createAcls({ principal: "alice", ...rule }))[0].principal, "User:alice");
  }
  assert.equal((await control.listAcls()).length, 4);
  await control.deleteAcls();
  assert.deepEqual(await control.readTelemetry(), []);
});

test("time and snapshots", async () => {
  const earlier = await control.readClock();
  assert.ok((await control.advanceClock(3600)) >= earlier + 3_600_000);
  assert.equal(await control.runRetention(), 0);
  await control.createTopic({ name: "c", configs: { "cleanup.policy": "compact" } });
  await control.compact("c");

  await control.produce("given", [{ value: "kept" }]);
  const directory = path.join(mkdtempSync(path.join(os.tmpdir(), "snapshots-")), "one");
  const taken = await control.takeSnapshot({ name: "a/b", directory });
  await control.reset({ keep_topics: true });
  await control.restoreSnapshot("a/b");
  await control.expect("given", { value: "kept" });
  assert.deepEqual(await control.listSnapshots(), [taken]);
  await control.deleteSnapshot("a/b");
  await control.reset();
  await control.restoreDirectory(directory);
  await control.expect("given", { value: "kept" });
});

test("brokers and health", async () => {
  const nodes = await control.listBrokers();
  assert.equal(nodes.length, 2);
  assert.equal(await control.moveLeader("given", 0, nodes[1].node_id), nodes[1].node_id);
  assert.equal(await control.readLeader("given", 0), nodes[1].node_id);
  for (const { node_id } of nodes) assert.equal((await control.stopBroker(node_id)).is_up, false);
  assert.deepEqual(await control.readyz(), { status: "down" });
  for (const { node_id } of nodes) assert.equal((await control.startBroker(node_id)).is_up, true);
  assert.deepEqual(await control.readyz(), { status: "ok" });
  assert.deepEqual(await control.healthz(), { status: "ok" });
  const about = await control.about();
  assert.deepEqual([about.bootstrap_servers, about.version], [broker.bootstrapServers, version]);
  assert.match(await control.metrics(), /kafka_server_/);
});

test("faults and the journal", async () => {
  assert.equal((await control.beginJournal({ capacity: 100 })).is_kept, true);
  const { id } = await control.addFault({ api: "ApiVersions", client_id: "js-*", delay_ms: 1, times: 1 });
  await ask("js-first");
  await ask("js-second");
  const wait = { api: "ApiVersions", client_id: "js-*" };
  const { requests } = await control.waitForRequests({ count: 2, timeout: 20, ...wait });
  assert.equal(requests[1].client_id, "js-second");
  const later = await control.listRequests({ ...wait, after: requests[0].number, limit: 5 });
  assert.deepEqual(later.requests, requests.slice(1));
  const none = { topic: "given", group: "g", error: "NOT_COORDINATOR" };
  assert.deepEqual((await control.listRequests(none)).requests, []);
  await assert.rejects(control.waitForRequests({ ...none, timeout: 0 }), fails("timeout"));

  const { fired, hits } = await control.readFault(id);
  assert.deepEqual([fired, hits[0].api], [1, "ApiVersions"]);
  assert.equal((await control.removeFault(id)).fault.times, 1);
  const faults = [
    { versions: "0-3", node: 1, topic: "given", partition: 0, nth: 2, error: "NOT_LEADER_OR_FOLLOWER" },
    { api: "JoinGroup", group: "g", after: 1, probability: 0.5, seed: 0, drop: "before" },
    { api: "EndTxn", transactional_id: "t", disconnect: "after" },
    { api: "OffsetCommit", late: 2 },
    { api: "Produce", error: 20, applied: true },
    { api: "Fetch", fetch_bytes: 0 },
    { api: "Heartbeat", black_hole: true },
    { api: "Heartbeat", truncate: 0 },
    { api: "Fetch", corrupt: "records" },
    { api: "Metadata", stale_metadata: 1, jitter_ms: 1, throttle_ms: 5, bytes_per_second: 1e6, slice_bytes: 1000 },
  ];
  for (const fault of faults) await control.addFault(fault);
  assert.deepEqual((await control.listFaults()).map(({ fault }) => fault.partition ?? fault.seed), [0, 0, ...Array(8)]);
  await control.clearFaults();
  await control.forgetRequests();
  await control.endJournal();
  assert.equal((await control.readJournal()).is_kept, false);
});

test("errors name their cause", async () => {
  const message = "there is no topic 'gvien'; topics: given; did you mean given?";
  const { name, reason, ...error } = await control.describeTopic("gvien").catch((each) => each);
  assert.deepEqual([name, reason, error.status, error.method], ["ControlError", message, 404, "GET"]);
  await assert.rejects(new ControlClient(control.url, { token: "wrong" }).listBrokers(), /401 unauthorized: the token is wrong$/);
  await assert.rejects(new ControlClient("http://127.0.0.1:1").about(), /no answer of the control plane at http:.*:1: /);
  const aborted = control.request("GET", "/", { signal: AbortSignal.abort() });
  await assert.rejects(aborted, { name: "AbortError" });
});

test("a broker that does not start is an error with its words", async () => {
  const wrong = start({ topics: ["a:0"], stderr: null });
  await assert.rejects(wrong, /exit status 1\n.*topic 'a': Number of partitions/);
  await assert.rejects(start({ command: ["no-such-program"] }), /ENOENT; .*MINIBROKER_COMMAND/);
});

test("a broker is stopped once", async () => {
  const other = await start();
  await other.stop();
  await other.stop();
  await assert.rejects(other.control.healthz(), /no answer/);
});
