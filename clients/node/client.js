"use strict";

// fetch() gives up after five minutes without a response, and some waits of the control plane take ten minutes.
const http = require("node:http");

/** The broker's response to a failed request: `status`, `code`, `method` and `path`, and its sentence as `message`. */
class ControlError extends Error {
  constructor(method, path, status, content) {
    let answer = {};
    try {
      answer = JSON.parse(content);
    } catch {
      // The body is not JSON: see below.
    }
    const code = typeof answer?.error === "string" ? answer.error : "foreign";
    const reason = code === "foreign" ? `not an answer of a control plane: ${content.slice(0, 200)}` : answer.message;
    super(`minibroker: ${method} ${path}: ${status} ${code}: ${reason}`);
    this.name = "ControlError";
    // Test runners show the code of the first frame, which should be the user's.
    const isYours = (line) => !line.includes(__filename) && !line.includes("(node:internal/process/");
    this.stack = this.stack.split("\n").filter(isYours).join("\n");
    Object.assign(this, { method, path, status, code, reason, answer });
  }
}

/** Returns the bytes of a key, value or header read in the format `text` or `base64`, or null for null. */
function bytes(payload) {
  if (payload === null || payload === undefined) return null;
  if (typeof payload === "string") return Buffer.from(payload);
  if (typeof payload.base64 === "string") return Buffer.from(payload.base64, "base64");
  throw new TypeError(`minibroker: no bytes but ${JSON.stringify(payload)}: read it with the format text or base64`);
}

/** Replaces buffers in keys, values and headers with `{ base64 }`, the control plane's form of bytes. */
function payload(value) {
  return value instanceof Uint8Array ? { base64: Buffer.from(value).toString("base64") } : value;
}

/**
 * Returns the query of a read. An unknown option throws, such as a `timeout`, which belongs to the previous argument.
 */
function formatOf({ format, ...others }) {
  const [name] = Object.keys(others);
  if (name !== undefined) throw new TypeError(`minibroker: ${name}: there is no such option; the last argument has format`);
  return { format };
}

function withPayloads(criteria) {
  if (typeof criteria !== "object" || criteria === null) {
    throw new TypeError(`minibroker: ${JSON.stringify(criteria)} is not an object such as { key: "7", value: "text" }`);
  }
  const body = { ...criteria };
  for (const name of ["key", "value"]) if (name in body) body[name] = payload(body[name]);
  if (Array.isArray(body.headers)) body.headers = body.headers.map(([name, value]) => [name, payload(value)]);
  else if (body.headers) {
    body.headers = Object.fromEntries(Object.entries(body.headers).map(([name, value]) => [name, payload(value)]));
  }
  return body;
}

const at = (...segments) => "/" + segments.map((each) => encodeURIComponent(each)).join("/");
const leaderOf = (topic, partition) => at("topics", topic, "partitions", partition, "leader");

/**
 * A client of one control plane. Each method sends one request and has the operation's name in docs/control-plane.md.
 */
class ControlClient {
  #token;
  #agent = new http.Agent({ keepAlive: true });

  constructor(url, { token } = {}) {
    this.url = url.replace(/\/+$/, "");
    this.#token = token;
  }

  /** Sends a request and returns the decoded response: undefined without a body, or a text if it is not JSON. */
  async request(method, path, { query = {}, body, signal } = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
    const content = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      ...(content === undefined ? {} : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(content) }),
      ...(this.#token ? { Authorization: `Bearer ${this.#token}` } : {}),
    };
    const target = this.url + path + (search && `?${search}`);
    const options = { method, headers, agent: this.#agent, signal };
    const { status, type, text } = await new Promise((resolve, reject) => {
      const fail = (error) => {
        if (error.name === "AbortError") return reject(error);
        const reason = error.message || error.code;
        reject(new Error(`minibroker: no answer of the control plane at ${this.url}: ${reason}`, { cause: error }));
      };
      const request = http.request(target, options, (response) => {
        const chunks = [];
        response.on("error", fail);
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode, type: response.headers["content-type"] ?? "", text });
        });
      });
      request.on("error", fail);
      request.end(content);
    });
    if (status >= 400) throw new ControlError(method, path, status, text);
    if (!text) return undefined;
    return type.startsWith("application/json") ? JSON.parse(text) : text;
  }

  #get(path, query) {
    return this.request("GET", path, { query });
  }

  #post(path, body, query) {
    return this.request("POST", path, { body, query });
  }

  #delete(path) {
    return this.request("DELETE", path);
  }

  async #warnings(path, body) {
    return (await this.#post(path, body))?.warnings ?? [];
  }

  listTopics(page = {}) {
    return this.#get("/topics", page);
  }

  createTopic(topic) {
    return this.#post("/topics", topic);
  }

  describeTopic(topic) {
    return this.#get(at("topics", topic));
  }

  deleteTopic(topic) {
    return this.#delete(at("topics", topic));
  }

  async produce(topic, records, options = {}) {
    const body = { records: records.map(withPayloads), ...options };
    return (await this.#post(at("topics", topic, "records"), body)).records;
  }

  readRecords(topic, options = {}) {
    return this.#get(at("topics", topic, "records"), options);
  }

  async waitForRecords(topic, wanted = {}, options = {}) {
    if (typeof wanted !== "object" || wanted === null) {
      throw new TypeError(`minibroker: ${wanted} is not an object such as { count: 3 }`);
    }
    const { matching, ...wait } = wanted;
    const body = { ...wait, ...(matching ? { matching: withPayloads(matching) } : {}) };
    return (await this.#post(at("topics", topic, "records", "wait"), body, formatOf(options))).records;
  }

  async expect(topic, expectation, options = {}) {
    return this.#post(at("topics", topic, "records", "expect"), withPayloads(expectation), formatOf(options));
  }

  expectNone(topic, absence = {}) {
    return this.#warnings(at("topics", topic, "records", "expect-none"), withPayloads(absence));
  }

  listGroups(page = {}) {
    return this.#get("/groups", page);
  }

  async committedOffsets(group) {
    return (await this.#get(at("groups", group, "committed"))).partitions;
  }

  groupLag(group) {
    return this.#get(at("groups", group, "lag"));
  }

  async sharePartitions(group) {
    return (await this.#get(at("groups", group, "share-partitions"))).partitions;
  }

  waitUntilStable(group, wait = {}) {
    return this.#post(at("groups", group, "wait-until-stable"), wait);
  }

  async waitUntilCaughtUp(group, wait = {}) {
    return (await this.#post(at("groups", group, "wait-until-caught-up"), wait)).partitions;
  }

  rebalance(group) {
    return this.#post(at("groups", group, "rebalance"));
  }

  describeGroup(group) {
    return this.#get(at("groups", group));
  }

  configure(configs) {
    return this.#warnings("/configs", { configs });
  }

  async readTopicConfigs(topic) {
    return (await this.#get(at("topics", topic, "configs"))).configs;
  }

  configureTopic(topic, configs) {
    return this.#post(at("topics", topic, "configs"), { configs });
  }

  setQuota(quota) {
    return this.#post("/quotas", quota);
  }

  async listAcls() {
    return (await this.#get("/acls")).acls;
  }

  async createAcls(rule) {
    return (await this.#post("/acls", rule)).acls;
  }

  deleteAcls() {
    return this.#delete("/acls");
  }

  async readTelemetry() {
    return (await this.#get("/telemetry")).pushes;
  }

  async readClock() {
    return (await this.#get("/clock")).now_ms;
  }

  async advanceClock(seconds) {
    return (await this.#post("/clock/advance", { seconds })).now_ms;
  }

  async runRetention() {
    return (await this.#post("/retention/run")).deleted_segments;
  }

  compact(topic = null) {
    return this.#post("/compact", { topic });
  }

  reset(options = {}) {
    return this.#post("/reset", options);
  }

  async listSnapshots() {
    return (await this.#get("/snapshots")).snapshots;
  }

  takeSnapshot(options = {}) {
    return this.#post("/snapshots", options);
  }

  restoreSnapshot(name) {
    return this.#post(at("snapshots", name, "restore"));
  }

  deleteSnapshot(name) {
    return this.#delete(at("snapshots", name));
  }

  restoreDirectory(directory) {
    return this.#post("/restore", { directory });
  }

  async listBrokers() {
    return (await this.#get("/brokers")).brokers;
  }

  stopBroker(nodeId) {
    return this.#post(at("brokers", nodeId, "stop"));
  }

  startBroker(nodeId) {
    return this.#post(at("brokers", nodeId, "start"));
  }

  async readLeader(topic, partition) {
    return (await this.#get(leaderOf(topic, partition))).node_id;
  }

  async moveLeader(topic, partition, nodeId) {
    return (await this.request("PUT", leaderOf(topic, partition), { body: { node_id: nodeId } })).node_id;
  }

  readJournal() {
    return this.#get("/journal");
  }

  beginJournal(options = {}) {
    return this.request("PUT", "/journal", { body: options });
  }

  endJournal() {
    return this.#delete("/journal");
  }

  listRequests(filter = {}) {
    return this.#get("/requests", filter);
  }

  forgetRequests() {
    return this.#delete("/requests");
  }

  waitForRequests(wait = {}) {
    return this.#post("/requests/wait", wait);
  }

  async listFaults() {
    return (await this.#get("/faults")).faults;
  }

  startChaos(chaos) {
    return this.#post("/chaos", chaos);
  }

  readChaos() {
    return this.#get("/chaos");
  }

  settleChaos() {
    return this.#post("/chaos/settle");
  }

  stopChaos() {
    return this.#delete("/chaos");
  }

  checkApplication(checking) {
    return this.#post("/check", checking);
  }

  addFault(fault) {
    return this.#post("/faults", fault);
  }

  clearFaults() {
    return this.#delete("/faults");
  }

  readFault(id) {
    return this.#get(at("faults", id));
  }

  removeFault(id) {
    return this.#delete(at("faults", id));
  }

  about() {
    return this.#get("/");
  }

  healthz() {
    return this.#get("/healthz");
  }

  async readyz() {
    try {
      return await this.#get("/readyz");
    } catch (error) {
      if (error.answer?.status === "down") return error.answer;
      throw error;
    }
  }

  metrics() {
    return this.#get("/metrics");
  }
}

module.exports = { ControlClient, ControlError, bytes };
