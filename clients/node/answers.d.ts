// Made by `make clients`, from the OpenAPI document (4c07bc4940ca0ac0): change that.
import type { ConsumedRecord, Fault } from "./index.js";

/** An assigned partition. */
export interface Assigned {
  topic: string;
  partition: number;
}

/** The brokers as a whole. */
export interface BrokerInfo {
  name: "minibroker";
  version: string;
  cluster_id: string;
  /** The `bootstrap.servers` of clients. */
  bootstrap_servers: string;
  controller: number | null;
  registry_url: string | null;
}

/** What has happened under chaos. `POST /chaos` repeats it if all of this is passed as `steps`. */
export interface ChaosRun {
  /** The version of the steps. */
  chaos: number;
  seed: number | null;
  profile: string;
  steps: ChaosStep[];
  /** Whether a client has reacted. Otherwise the run has shown nothing. */
  is_felt: boolean;
  /** The numbers of repeated steps that happened exactly, at a later attempt, and not at all. */
  met: number[];
  /** The same in lines of text. */
  report: string[];
}

/** A misbehavior of the broker that happened at a request. */
export interface ChaosStep {
  /** The name of the misbehaviour. */
  row: string;
  /** The name of the point. */
  point: string;
  /** The attempt at this point, from 0 on. */
  attempt: number;
  /** The strength of the misbehaviour, such as `delay_ms`. */
  parameters: { [key: string]: number; };
  /** The number of the request. */
  number: number;
  /** What the client did next, or "nothing". */
  felt: string;
}

/** Something that an application did wrong. */
export interface CheckFinding {
  /** The name of the check. */
  check: string;
  /** Whether the broker has seen all of it. Otherwise it is likely. */
  certain: boolean;
  /** What happened, in a sentence or two. */
  summary: string;
  /** The topic of the record or committed offset, or "" for a group as a whole. */
  topic: string;
  /** Its partition, or -1. */
  partition: number;
  /** Its offset, or -1. */
  offset: number;
  /** What the broker saw before, at most 20 lines in order. */
  time_line: string[];
}

/** The result of a check. */
export interface CheckedApplication {
  /** The name of the check. */
  check: string;
  /** `passed`, `failed` if there are findings, or `inconclusive`. */
  outcome: "passed" | "failed" | "inconclusive";
  /** Why the check could not decide, or not decide all of it. */
  reasons: string[];
  /** The certain ones first. */
  findings: CheckFinding[];
}

/** The committed offset of a partition. */
export interface Committed {
  topic: string;
  partition: number;
  offset: number;
}

/** A key and a value, shown as with the format `json`. */
export interface DecodedPair {
  /**  */
  key: unknown;
  /**  */
  value: unknown;
}

/** The state of a group at one moment. */
export interface Group {
  group_id: string;
  /** `classic`, `consumer`, `share` or `streams`: the protocol of its members. */
  type: string;
  /** Kafka's name of the state: `Empty`, `Stable`, `Dead`, or the name of a rebalancing state. */
  state: string;
  is_stable: boolean;
  /** The generation of a `classic` group, or the epoch of any other group. */
  generation: number;
  protocol: string | null;
  members: Member[];
}

/** A page of consumer group ids. */
export interface GroupIds {
  groups: string[];
  next_after: string | null;
}

/** A header of a record. */
export interface Header {
  name: string;
  /** Shown according to `format`. */
  value: unknown;
}

/** Consecutive offsets that were delivered to a share group and have the same state. */
export interface InFlight {
  first_offset: number;
  /** The last offset, included. */
  last_offset: number;
  /** Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`. */
  state: string;
  /** The number of times that each record was delivered. */
  delivery_count: number;
  member_id: string | null;
}

/** An installed fault. Warnings appear only in the response to the request that installs the fault. */
export interface InstalledFault {
  id: string;
  /** The number of requests that the fault has hit. */
  fired: number;
  /** The fields of the fault. */
  fault: Fault;
  warnings?: string[];
}

/** Client requests and their responses, oldest first. */
export interface JournalEntries {
  /** The number of all requests, including filtered and dropped ones. */
  count: number;
  requests: JournalEntry[];
}

/** One request and its response. */
export interface JournalEntry {
  number: number;
  /** Arrival by the broker's clock, in ms since the epoch. */
  time: number;
  /** Both addresses, the broker's first. */
  connection: string;
  /** The id of the broker that received it. */
  node: number;
  client_host: string;
  client_id: string | null;
  api: string;
  version: number;
  correlation_id: number;
  request: any;
  response: any;
  /** The names of the errors in the response. */
  errors: string[];
  duration_ms: number | null;
  bytes_in: number;
  bytes_out: number;
  fault: Fault | null;
  chaos: string | null;
  failure: string | null;
  /** The records of a small request and its response, decoded, if the broker has schemas. */
  records?: DecodedPair[];
}

/** The state of the journal. */
export interface JournalInfo {
  is_kept: boolean;
  /** The number of requests since the journal was started. */
  count: number;
}

/** The lag of a group. */
export interface Lag {
  total: number;
  partitions: PartitionLag[];
  warnings?: string[];
}

/** A member of a group. */
export interface Member {
  member_id: string;
  group_instance_id: string | null;
  client_id: string;
  client_host: string;
  partitions: Assigned[] | null;
}

/** A metric of a client. */
export interface Metric {
  name: string;
  value: number;
}

/** A broker. */
export interface Node {
  node_id: number;
  is_up: boolean;
  /** The listening address, as HOST:PORT. */
  address: string;
  rack: string | null;
}

/** The lag of a group in one partition. */
export interface PartitionLag {
  topic: string;
  partition: number;
  lag: number;
}

/** The appended records, in order. */
export interface ProducedRecords {
  records: RecordMetadata[];
  warnings?: string[];
}

/** The metrics that a client has sent in one request. */
export interface Push {
  client_instance_id: string;
  client_id: string;
  client_host: string;
  /** Time of arrival, in milliseconds since the epoch. */
  timestamp: number;
  /** Whether the client announced that it is closing. */
  is_last: boolean;
  metrics: Metric[];
}

/** The partition and the offset of a new record. */
export interface RecordMetadata {
  topic: string;
  partition: number;
  offset: number;
}

/** Some records of a topic, ordered by partition. */
export interface RecordPart {
  records: ConsumedRecord[];
  /** The next `start` by partition, or empty after the last record. */
  next_offsets: { [key: string]: number; };
}

/** An access rule. */
export interface Rule {
  resource_type: string;
  resource_name: string;
  pattern_type: string;
  principal: string;
  host: string;
  operation: string;
  permission: string;
}

/** The state of a share-partition (KIP-932). */
export interface SharePartition {
  topic: string;
  partition: number;
  start_offset: number | null;
  lag: number | null;
  /** The number of offsets acquired by members. */
  acquired: number;
  in_flight: InFlight[];
}

/** A snapshot. */
export interface Snapshot {
  name: string;
  directory: string;
}

/** The state of the broker. */
export interface Status {
  status: "ok" | "down";
}

/** A topic. */
export interface Topic {
  name: string;
  /** The id in Kafka's text format. */
  topic_id: string;
  partitions: number;
  /** The values that differ from the broker's defaults. */
  configs: { [key: string]: string; };
  is_internal: boolean;
}

/** A page of topics, sorted by name. */
export interface TopicList {
  topics: Topic[];
  next_after: string | null;
}
