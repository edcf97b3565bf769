// Made by `make clients`, from the OpenAPI document (7ecdcf54dac76d69): change that.
import type { ConsumedRecord, Fault } from "./index.js";

/** A partition. */
export interface Assigned {
  topic: string;
  partition: number;
}

/** The brokers as one. */
export interface BrokerInfo {
  name: "minibroker";
  version: string;
  cluster_id: string;
  /** For a client's configuration. */
  bootstrap_servers: string;
  controller: number | null;
}

/** The committed offset of a partition. */
export interface Committed {
  topic: string;
  partition: number;
  offset: number;
}

/** A group at one moment. */
export interface Group {
  group_id: string;
  /** `classic`, `consumer`, `share` or `streams`: the protocol of its members. */
  type: string;
  /** Kafka's name of the state: `Empty`, `Stable`, `Dead`, or a state on the way to `Stable`. */
  state: string;
  is_stable: boolean;
  /** The generation of a `classic` group, or the epoch of any other group. */
  generation: number;
  protocol: string | null;
  members: Member[];
}

/** Some consumer groups, by id. */
export interface GroupIds {
  groups: string[];
  next_after: string | null;
}

/** A header of a record. */
export interface Header {
  name: string;
  /** As `format` asks. */
  value: unknown;
}

/** Neighboring offsets that were delivered to a share group and are in the same state. */
export interface InFlight {
  first_offset: number;
  /** Included. */
  last_offset: number;
  /** Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`. */
  state: string;
  /** How often each of them was delivered. */
  delivery_count: number;
  member_id: string | null;
}

/** A fault. The response that installs it may have warnings. */
export interface InstalledFault {
  id: string;
  /** The number of requests that it has hit. */
  fired: number;
  /** Its fields. */
  fault: Fault;
  warnings?: string[];
}

/** Requests of clients and their responses, oldest first. */
export interface JournalEntries {
  /** The number of requests, also of those that do not fit or are kept no longer. */
  count: number;
  requests: JournalEntry[];
}

/** One request and its answer. */
export interface JournalEntry {
  number: number;
  /** When it came: ms since the epoch on the broker's clock. */
  time: number;
  /** Both ends, the broker's first. */
  connection: string;
  /** The id of the broker that was asked. */
  node: number;
  client_host: string;
  client_id: string | null;
  api: string;
  version: number;
  correlation_id: number;
  request: any;
  response: any;
  /** The errors in the response, by name. */
  errors: string[];
  duration_ms: number | null;
  bytes_in: number;
  bytes_out: number;
  fault: Fault | null;
  failure: string | null;
}

/** The journal. */
export interface JournalInfo {
  is_kept: boolean;
  /** The number of requests since it was begun. */
  count: number;
}

/** The offsets that a group is behind. */
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

/** One broker. */
export interface Node {
  node_id: number;
  is_up: boolean;
  /** HOST:PORT that it listens on. */
  address: string;
  rack: string | null;
}

/** The offsets that a group is behind in a partition. */
export interface PartitionLag {
  topic: string;
  partition: number;
  lag: number;
}

/** Records that were appended, in their order. */
export interface ProducedRecords {
  records: RecordMetadata[];
  warnings?: string[];
}

/** The metrics that a client has sent at once. */
export interface Push {
  client_instance_id: string;
  client_id: string;
  client_host: string;
  /** ms since the epoch, when it came. */
  timestamp: number;
  /** The client has said that it is going. */
  is_last: boolean;
  metrics: Metric[];
}

/** The partition and the offset that a record got. */
export interface RecordMetadata {
  topic: string;
  partition: number;
  offset: number;
}

/** Some records of a topic, partition by partition. */
export interface RecordPart {
  records: ConsumedRecord[];
  /** By partition, the `start` that goes on; empty once all was read to the end. */
  next_offsets: { [key: string]: number; };
}

/** One rule. */
export interface Rule {
  resource_type: string;
  resource_name: string;
  pattern_type: string;
  principal: string;
  host: string;
  operation: string;
  permission: string;
}

/** A partition as a share group sees it (KIP-932). */
export interface SharePartition {
  topic: string;
  partition: number;
  start_offset: number | null;
  lag: number | null;
  /** The offsets that members have in hand. */
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

/** Some topics, by name. */
export interface TopicList {
  topics: Topic[];
  next_after: string | null;
}
