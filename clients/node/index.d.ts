export * from "./answers.js";
import type {
  BrokerInfo,
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

/** JSON, and bytes: a string stands for its UTF-8, a Buffer for itself, anything else for its JSON. */
export type Payload = unknown;
/** The form of keys, values and headers; bytes that are not UTF-8 are `{ base64 }` as text. */
export type Format = "text" | "base64" | "json";
export type ConfigValue = string | number | boolean | null;

export interface Page {
  /** Leaves out this name, and those that sort before it. */
  after?: string;
  limit?: number;
}

/** A topic to be made: with a name, or with a prefix to which the broker adds random digits. */
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
  /** An object, or pairs where the order counts or names come twice. */
  headers?: Record<string, Payload> | [string, Payload][];
  /** ms since the epoch. */
  timestamp?: number | null;
  partition?: number | null;
}

export interface ProduceOptions {
  message_format?: "v2" | "v1" | "v0";
  codec?: "none" | "gzip" | "snappy" | "lz4" | "zstd";
}

/** A record; `Value` is the type that its value has with the format `json`. */
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

/** A record as it has to be. What is not given may be anything; of an object only the given members count. */
export interface Criteria {
  value?: Payload;
  key?: Payload;
  headers?: Record<string, Payload> | null;
  partition?: number | null;
}

export interface Expectation extends Criteria {
  /** Seconds; 10 unless given. */
  timeout?: number;
}

export interface Absence extends Criteria {
  /** Seconds for which none may come; 0 looks once. */
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

export interface Quota {
  /** A `user`, a `client-id`, both, or an `ip`; null is the default of its kind. */
  entity: Record<string, string | null>;
  /** By Kafka's names, per second; null removes one. */
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

/** Requests match all that is given. Names may have the wildcards * and ?. */
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
  drop?: "before" | "after";
  disconnect?: "before" | "after";
  black_hole?: true;
  truncate?: number;
  corrupt?: "records" | "body" | "correlation_id" | "length";
  stale_metadata?: number;
  delay_ms?: number;
  throttle_ms?: number;
}

export interface FaultHits extends InstalledFault {
  hits: JournalEntry[];
}

/** The broker's answer to a request that was not done; `message` has its words. */
export class ControlError extends Error {
  /** Of HTTP, from 400 on. */
  readonly status: number;
  /** A word for programs: bad_request, not_found, conflict, timeout, unexpected ... */
  readonly code: string;
  /** The broker's sentence alone. */
  readonly reason: string;
  readonly method: string;
  readonly path: string;
}

/** The bytes of a key, value or header that was read with the format `text` or `base64`; null for null. */
export function bytes(payload: unknown): Buffer | null;

/** A client of one control plane. Each method is one request, under the name of its operation. */
export class ControlClient {
  constructor(url: string, options?: { token?: string });
  readonly url: string;
  /** Sends any request, and returns the decoded answer. */
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
  /** Waits for `count` committed records that match, and returns all that do. */
  waitForRecords<Value = any>(topic: string, wait?: RecordWait, options?: { format?: Format }): Promise<ConsumedRecord<Value>[]>;
  /** Waits for a record and returns it; the error compares with what is there. */
  expect<Value = any>(topic: string, expectation: Expectation, options?: { format?: Format }): Promise<ConsumedRecord<Value>>;
  /** Throws `unexpected` if there is such a record; returns warnings, as of a name that is probably misspelt. */
  expectNone(topic: string, absence?: Absence): Promise<string[]>;
  listGroups(page?: Page): Promise<GroupIds>;
  committedOffsets(group: string): Promise<Committed[]>;
  groupLag(group: string): Promise<Lag>;
  /** The records that a share group has in flight. */
  sharePartitions(group: string): Promise<SharePartition[]>;
  waitUntilStable(group: string, wait?: GroupWait): Promise<Group>;
  waitUntilCaughtUp(group: string, wait?: CatchingUp): Promise<Committed[]>;
  rebalance(group: string): Promise<void>;
  describeGroup(group: string): Promise<Group>;
  /** Alters keys of the broker; null takes back what was altered. Returns warnings. */
  configure(configs: Record<string, ConfigValue>): Promise<string[]>;
  readTopicConfigs(topic: string): Promise<Record<string, string | null>>;
  configureTopic(topic: string, configs: Record<string, ConfigValue>): Promise<void>;
  setQuota(quota: Quota): Promise<void>;
  listAcls(): Promise<Rule[]>;
  createAcls(rule: NewRule): Promise<Rule[]>;
  deleteAcls(): Promise<void>;
  readTelemetry(): Promise<Push[]>;
  /** The broker's time, in ms since the epoch. */
  readClock(): Promise<number>;
  /** Moves the broker's time on, and returns it. */
  advanceClock(seconds: number): Promise<number>;
  /** Returns the number of deleted segments. */
  runRetention(): Promise<number>;
  compact(topic?: string | null): Promise<void>;
  reset(options?: { keep_topics?: boolean }): Promise<void>;
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
  /** `down` while no broker is up. */
  readyz(): Promise<Status>;
  metrics(): Promise<string>;
}

export interface ServeOptions {
  /** The program and its first arguments. Unless given it is MINIBROKER_COMMAND, else minibroker on the PATH. */
  command?: string[];
  /** Made at the start, and again with each reset: NAME[:PARTITIONS[:KEY=VALUE,...]]. */
  topics?: string[];
  brokers?: number;
  /** The token of the control plane. */
  token?: string;
  /** Further arguments of `minibroker serve`. */
  args?: string[];
  /** Takes what the broker reports; process.stderr unless given, null for nowhere. */
  stderr?: { write(text: string): unknown } | null;
}

/** A `minibroker serve` that this process has started. */
export interface Broker {
  /** HOST:PORT, or several with commas. */
  readonly bootstrapServers: string;
  readonly control: ControlClient;
  /** Ends the broker, and removes its data. */
  stop(): Promise<void>;
}

/** Starts `minibroker serve` on free ports, and returns once clients can connect. It ends with this process. */
export function serve(options?: ServeOptions): Promise<Broker>;
