export * from "./answers.js";
import type {
  BrokerInfo,
  ChaosRun,
  ChaosStep,
  CheckedApplication,
  Committed,
  Group,
  GroupIds,
  Header,
  InstalledFault,
  JournalEntries,
  JournalEntry,
  JournalInfo,
  Lag,
  Node,
  Push,
  RecordMetadata,
  RecordPart,
  Rule,
  SharePartition,
  Snapshot,
  Status,
  Topic,
  TopicList,
} from "./answers.js";

/** A payload: a string is stored as UTF-8, a Buffer unchanged, and anything else as JSON. */
export type Payload = unknown;
/**
 * The form of keys, values and headers. As text, bytes that are not UTF-8 are `{ base64 }`. As json, keys and values that
 * have a schema are decoded.
 */
export type Format = "text" | "base64" | "json";
export type ConfigValue = string | number | boolean | null;

export interface Page {
  /** Skips this name and all names sorted before it. */
  after?: string;
  limit?: number;
}

/** A topic to create, with a name or with a prefix to which the broker appends random digits. */
export interface NewTopic {
  name?: string;
  prefix?: string;
  partitions?: number;
  replication_factor?: number;
  configs?: Record<string, string | number | boolean>;
}

export interface NewRecord {
  value?: Payload;
  key?: Payload;
  /** An object, or pairs if the order matters or names repeat. */
  headers?: Record<string, Payload> | [string, Payload][];
  /** Milliseconds since the epoch. */
  timestamp?: number | null;
  partition?: number | null;
}

export interface ProduceOptions {
  message_format?: "v2" | "v1" | "v0";
  codec?: "none" | "gzip" | "snappy" | "lz4" | "zstd";
  /** A subject whose latest schema encodes the values. */
  schema?: string;
  /** A subject whose latest schema encodes the keys. */
  key_schema?: string;
}

/** A record. `Value` is the type of its value in the format `json`. */
export interface ConsumedRecord<Value = any> {
  topic: string;
  partition: number;
  offset: number;
  timestamp: number;
  timestamp_type: string;
  key: any;
  value: Value;
  headers: Header[];
  message_format: number;
  codec: string;
  producer_id: number;
}

export interface ReadOptions {
  partition?: number;
  start?: number;
  isolation?: "read_committed" | "read_uncommitted";
  limit?: number;
  format?: Format;
}

/** An expected record. An omitted field matches anything, and objects are compared by the given members only. */
export interface Criteria {
  value?: Payload;
  key?: Payload;
  headers?: Record<string, Payload> | null;
  partition?: number | null;
}

export interface Expectation extends Criteria {
  /** The timeout in seconds, 10 by default. */
  timeout?: number;
}

export interface Absence extends Criteria {
  /** How long to keep checking, in seconds. 0 checks once. */
  within?: number;
}

export interface Matching extends Criteria {
  offset?: number | null;
  timestamp?: number | null;
}

export interface RecordWait {
  count?: number;
  matching?: Matching;
  timeout?: number;
}

export interface GroupWait {
  members?: number | null;
  timeout?: number;
}

export interface CatchingUp {
  topic?: string | null;
  timeout?: number;
}

export interface NewChaos {
  seed?: number | null;
  /** `default`, `heavy`, `network`, `rebalances`, `failovers` or `transactions`. */
  profile?: string;
  /** The only misbehaviours to use, instead of those of the profile. */
  only?: string[];
  without?: string[];
  /** The steps of an earlier run, instead of a seed. */
  steps?: ChaosRun | ChaosStep[] | null;
}

export interface Checking {
  /** Such as `no_loss`. */
  check: string;
  inputs?: string[];
  outputs?: string[];
  /** `key` (the default), `value`, `header:NAME` or `json:FIELD`. */
  key?: string;
  output_key?: string | null;
  /** The ids of the outputs of an input, by its id. */
  expected?: Record<string, string[]> | null;
  group?: string | null;
  /** The client id of the producer for that of each consumer. */
  instances?: Record<string, string> | null;
  /** In seconds, for `caught_up`. */
  timeout?: number;
}

export interface Quota {
  /** A `user`, a `client-id`, both, or an `ip`. Null stands for the default entity. */
  entity: Record<string, string | null>;
  /** Limits per second by Kafka's names. Null removes a limit. */
  limits: Record<string, number | null>;
}

export interface NewRule {
  permission?: "allow" | "deny";
  principal: string;
  operations: string[];
  topic?: string;
  group?: string;
  transactional_id?: string;
  cluster?: boolean;
  prefixed?: boolean;
  host?: string;
}

export interface NewSnapshot {
  name?: string | null;
  directory?: string | null;
}

/** Requests that match all given fields. Names can have the wildcards * and ?. */
export interface RequestFilter {
  api?: string;
  client_id?: string;
  topic?: string;
  group?: string;
  error?: string | number;
  after?: number;
  limit?: number;
}

export interface RequestWait {
  count?: number;
  api?: string;
  client_id?: string;
  topic?: string;
  group?: string;
  error?: string | number;
  timeout?: number;
}

/** A fault: its effect, the requests that it hits and its limits. See docs/faults.md. */
export interface Fault {
  api?: string;
  versions?: string | number;
  node?: number;
  client_id?: string;
  topic?: string;
  partition?: number;
  group?: string;
  transactional_id?: string;
  nth?: number;
  after?: number;
  times?: number;
  probability?: number;
  seed?: number;
  error?: string | number;
  applied?: true;
  drop?: "before" | "after";
  disconnect?: "before" | "after";
  late?: number;
  black_hole?: true;
  truncate?: number;
  corrupt?: "records" | "body" | "correlation_id" | "length";
  stale_metadata?: number;
  fetch_bytes?: number;
  delay_ms?: number;
  jitter_ms?: number;
  throttle_ms?: number;
  bytes_per_second?: number;
  slice_bytes?: number;
}

export interface FaultHits extends InstalledFault {
  hits: JournalEntry[];
}

/** The broker's response to a failed request. `message` has the broker's sentence. */
export class ControlError extends Error {
  /** The HTTP status, 400 or higher. */
  readonly status: number;
  /** A code for programs: bad_request, not_found, conflict, timeout, unexpected ... */
  readonly code: string;
  /** The broker's sentence without the request. */
  readonly reason: string;
  readonly method: string;
  readonly path: string;
}

/** Returns the bytes of a key, value or header read in the format `text` or `base64`, or null for null. */
export function bytes(payload: unknown): Buffer | null;

/** A client of one control plane. Each method sends one request and has the name of its operation. */
export class ControlClient {
  constructor(url: string, options?: { token?: string });
  readonly url: string;
  /** Sends any request and returns the decoded response. */
  request(
    method: string,
    path: string,
    options?: { query?: Record<string, unknown>; body?: unknown; signal?: AbortSignal },
  ): Promise<any>;
  listTopics(page?: Page): Promise<TopicList>;
  createTopic(topic: NewTopic): Promise<Topic>;
  describeTopic(topic: string): Promise<Topic>;
  deleteTopic(topic: string): Promise<void>;
  /** Appends records without a Kafka client. */
  produce(topic: string, records: NewRecord[], options?: ProduceOptions): Promise<RecordMetadata[]>;
  readRecords(topic: string, options?: ReadOptions): Promise<RecordPart>;
  /** Waits for `count` matching committed records, and returns all of them. */
  waitForRecords<Value = any>(topic: string, wait?: RecordWait, options?: { format?: Format }): Promise<ConsumedRecord<Value>[]>;
  /** Waits for a record and returns it. The error compares the expectation with the existing records. */
  expect<Value = any>(topic: string, expectation: Expectation, options?: { format?: Format }): Promise<ConsumedRecord<Value>>;
  /** Throws `unexpected` if there is a matching record. Returns warnings, such as for a probably misspelled name. */
  expectNone(topic: string, absence?: Absence): Promise<string[]>;
  listGroups(page?: Page): Promise<GroupIds>;
  committedOffsets(group: string): Promise<Committed[]>;
  groupLag(group: string): Promise<Lag>;
  /** Returns the records that a share group has in flight. */
  sharePartitions(group: string): Promise<SharePartition[]>;
  waitUntilStable(group: string, wait?: GroupWait): Promise<Group>;
  waitUntilCaughtUp(group: string, wait?: CatchingUp): Promise<Committed[]>;
  rebalance(group: string): Promise<void>;
  /** Makes the broker misbehave as a Kafka cluster may, until `stopChaos`. Chaos that is running ends first. */
  startChaos(chaos: NewChaos): Promise<ChaosRun>;
  /** Returns what has happened so far. */
  readChaos(): Promise<ChaosRun>;
  /** Begins the quiet phase: nothing new goes wrong, what is late is applied, and what is held is released. */
  settleChaos(): Promise<ChaosRun>;
  /** Begins the quiet phase, ends the chaos, and returns what has happened. */
  stopChaos(): Promise<ChaosRun>;
  /** Judges an application by what the broker saw of it. A test fails unless `outcome` is `passed`. */
  checkApplication(checking: Checking): Promise<CheckedApplication>;
  describeGroup(group: string): Promise<Group>;
  /** Alters configuration keys of the broker. Null restores a default. Returns warnings. */
  configure(configs: Record<string, ConfigValue>): Promise<string[]>;
  readTopicConfigs(topic: string): Promise<Record<string, string | null>>;
  configureTopic(topic: string, configs: Record<string, ConfigValue>): Promise<void>;
  setQuota(quota: Quota): Promise<void>;
  listAcls(): Promise<Rule[]>;
  createAcls(rule: NewRule): Promise<Rule[]>;
  deleteAcls(): Promise<void>;
  readTelemetry(): Promise<Push[]>;
  /** Returns the broker's time in milliseconds since the epoch. */
  readClock(): Promise<number>;
  /** Advances the broker's clock and returns the new time. */
  advanceClock(seconds: number): Promise<number>;
  /** Returns the number of deleted segments. */
  runRetention(): Promise<number>;
  compact(topic?: string | null): Promise<void>;
  reset(options?: { keep_topics?: boolean; keep_schemas?: boolean }): Promise<void>;
  listSnapshots(): Promise<Snapshot[]>;
  takeSnapshot(options?: NewSnapshot): Promise<Snapshot>;
  restoreSnapshot(name: string): Promise<void>;
  deleteSnapshot(name: string): Promise<void>;
  restoreDirectory(directory: string): Promise<void>;
  listBrokers(): Promise<Node[]>;
  stopBroker(nodeId: number): Promise<Node>;
  startBroker(nodeId: number): Promise<Node>;
  readLeader(topic: string, partition: number): Promise<number | null>;
  moveLeader(topic: string, partition: number, nodeId: number): Promise<number | null>;
  readJournal(): Promise<JournalInfo>;
  beginJournal(options?: { capacity?: number }): Promise<JournalInfo>;
  endJournal(): Promise<void>;
  listRequests(filter?: RequestFilter): Promise<JournalEntries>;
  forgetRequests(): Promise<void>;
  waitForRequests(wait?: RequestWait): Promise<JournalEntries>;
  listFaults(): Promise<InstalledFault[]>;
  addFault(fault: Fault): Promise<InstalledFault>;
  clearFaults(): Promise<void>;
  readFault(id: string): Promise<FaultHits>;
  removeFault(id: string): Promise<FaultHits>;
  about(): Promise<BrokerInfo>;
  healthz(): Promise<Status>;
  /** Returns `down` while no broker is up. */
  readyz(): Promise<Status>;
  metrics(): Promise<string>;
}

export interface StartOptions {
  /** The program and its first arguments. The default is as in the README. */
  command?: string[];
  /** Topics to create at the start and again at each reset: NAME[:PARTITIONS[:KEY=VALUE,...]]. */
  topics?: string[];
  brokers?: number;
  /** Whether there is a schema registry. It needs the extra `registry`. */
  registry?: boolean;
  /** The token of the control plane. */
  token?: string;
  /** Further arguments of `minibroker serve`. */
  args?: string[];
  /** Receives the broker's log. The default is process.stderr, and null discards the log. */
  stderr?: { write(text: string): unknown } | null;
}

/** A `minibroker serve` started by this process. */
export interface Broker {
  /** HOST:PORT, or several separated by commas. */
  readonly bootstrapServers: string;
  /** The address of the schema registry, or undefined if there is none. */
  readonly registryUrl?: string;
  readonly control: ControlClient;
  /** Ends the broker and deletes its data. */
  stop(): Promise<void>;
}

/** Starts `minibroker serve` on free ports, and returns when clients can connect. The broker ends with this process. */
export function start(options?: StartOptions): Promise<Broker>;

/**
 * Returns the broker that globalSetup: "minibroker/setup" has started for this run of Jest or Vitest, or
 * the job that runs it, by the variables BOOTSTRAP_SERVERS, CONTROL, CONTROL_TOKEN and REGISTRY.
 */
export function connect(): Omit<Broker, "stop">;
