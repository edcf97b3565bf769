// Made by `make clients`, from the OpenAPI document (6688e91298312e09): change that. DO NOT EDIT.

package minibroker

// Assigned: An assigned partition.
type Assigned struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

// BrokerInfo: The brokers as a whole.
type BrokerInfo struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	ClusterID string `json:"cluster_id"`
	// The `bootstrap.servers` of clients.
	BootstrapServers string  `json:"bootstrap_servers"`
	Controller       *int    `json:"controller"`
	RegistryURL      *string `json:"registry_url"`
}

// ChaosRun: What has happened under chaos. `POST /chaos` repeats it if all of this is passed as `steps`.
type ChaosRun struct {
	// The version of the steps.
	Chaos   int         `json:"chaos"`
	Seed    *int64      `json:"seed"`
	Profile string      `json:"profile"`
	Steps   []ChaosStep `json:"steps"`
	// Whether a client has reacted. Otherwise the run has shown nothing.
	IsFelt bool `json:"is_felt"`
	// The numbers of repeated steps that happened exactly, at a later attempt, and not at all.
	Met []int `json:"met"`
	// The same in lines of text.
	Report []string `json:"report"`
}

// ChaosStep: A misbehavior of the broker that happened at a request.
type ChaosStep struct {
	// The name of the misbehaviour.
	Row string `json:"row"`
	// The name of the point.
	Point string `json:"point"`
	// The attempt at this point, from 0 on.
	Attempt int `json:"attempt"`
	// The strength of the misbehaviour, such as `delay_ms`.
	Parameters map[string]int `json:"parameters"`
	// The number of the request.
	Number int64 `json:"number"`
	// What the client did next, or "nothing".
	Felt string `json:"felt"`
}

// CheckFinding: Something that an application did wrong.
type CheckFinding struct {
	// The name of the check.
	Check string `json:"check"`
	// Whether the broker has seen all of it. Otherwise it is likely.
	Certain bool `json:"certain"`
	// What happened, in a sentence or two.
	Summary string `json:"summary"`
	// The topic of the record or committed offset, or "" for a group as a whole.
	Topic string `json:"topic"`
	// Its partition, or -1.
	Partition int `json:"partition"`
	// Its offset, or -1.
	Offset int64 `json:"offset"`
	// What the broker saw before, at most 20 lines in order.
	TimeLine []string `json:"time_line"`
}

// CheckedApplication: The result of a check.
type CheckedApplication struct {
	// The name of the check.
	Check string `json:"check"`
	// `passed`, `failed` if there are findings, or `inconclusive`.
	Outcome string `json:"outcome"`
	// Why the check could not decide, or not decide all of it.
	Reasons []string `json:"reasons"`
	// The certain ones first.
	Findings []CheckFinding `json:"findings"`
}

// Committed: The committed offset of a partition.
type Committed struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// DecodedPair: A key and a value, shown as with the format `json`.
type DecodedPair struct {
	//
	Key Payload `json:"key"`
	//
	Value Payload `json:"value"`
}

// Group: The state of a group at one moment.
type Group struct {
	GroupID string `json:"group_id"`
	// `classic`, `consumer`, `share` or `streams`: the protocol of its members.
	Type string `json:"type"`
	// Kafka's name of the state: `Empty`, `Stable`, `Dead`, or the name of a rebalancing state.
	State    string `json:"state"`
	IsStable bool   `json:"is_stable"`
	// The generation of a `classic` group, or the epoch of any other group.
	Generation int      `json:"generation"`
	Protocol   *string  `json:"protocol"`
	Members    []Member `json:"members"`
}

// GroupIDs: A page of consumer group ids.
type GroupIDs struct {
	Groups    []string `json:"groups"`
	NextAfter *string  `json:"next_after"`
}

// Header: A header of a record.
type Header struct {
	Name string `json:"name"`
	// Shown according to `format`.
	Value Payload `json:"value"`
}

// InFlight: Consecutive offsets that were delivered to a share group and have the same state.
type InFlight struct {
	FirstOffset int64 `json:"first_offset"`
	// The last offset, included.
	LastOffset int64 `json:"last_offset"`
	// Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`.
	State string `json:"state"`
	// The number of times that each record was delivered.
	DeliveryCount int     `json:"delivery_count"`
	MemberID      *string `json:"member_id"`
}

// InstalledFault: An installed fault. Warnings appear only in the response to the request that installs the fault.
type InstalledFault struct {
	ID string `json:"id"`
	// The number of requests that the fault has hit.
	Fired int `json:"fired"`
	// The fields of the fault.
	Fault    Fault    `json:"fault"`
	Warnings []string `json:"warnings"`
}

// JournalEntries: Client requests and their responses, oldest first.
type JournalEntries struct {
	// The number of all requests, including filtered and dropped ones.
	Count    int            `json:"count"`
	Requests []JournalEntry `json:"requests"`
}

// JournalEntry: One request and its response.
type JournalEntry struct {
	Number int `json:"number"`
	// Arrival by the broker's clock, in ms since the epoch.
	Time int64 `json:"time"`
	// Both addresses, the broker's first.
	Connection string `json:"connection"`
	// The id of the broker that received it.
	Node          int            `json:"node"`
	ClientHost    string         `json:"client_host"`
	ClientID      *string        `json:"client_id"`
	API           string         `json:"api"`
	Version       int            `json:"version"`
	CorrelationID int            `json:"correlation_id"`
	Request       map[string]any `json:"request"`
	Response      map[string]any `json:"response"`
	// The names of the errors in the response.
	Errors     []string `json:"errors"`
	DurationMs *float64 `json:"duration_ms"`
	BytesIn    int      `json:"bytes_in"`
	BytesOut   int      `json:"bytes_out"`
	Fault      *Fault   `json:"fault"`
	Chaos      *string  `json:"chaos"`
	Failure    *string  `json:"failure"`
	// The records of a small request and its response, decoded, if the broker has schemas.
	Records []DecodedPair `json:"records"`
}

// JournalInfo: The state of the journal.
type JournalInfo struct {
	IsKept bool `json:"is_kept"`
	// The number of requests since the journal was started.
	Count int `json:"count"`
}

// Lag: The lag of a group.
type Lag struct {
	Total      int64          `json:"total"`
	Partitions []PartitionLag `json:"partitions"`
	Warnings   []string       `json:"warnings"`
}

// Member: A member of a group.
type Member struct {
	MemberID        string     `json:"member_id"`
	GroupInstanceID *string    `json:"group_instance_id"`
	ClientID        string     `json:"client_id"`
	ClientHost      string     `json:"client_host"`
	Partitions      []Assigned `json:"partitions"`
}

// Metric: A metric of a client.
type Metric struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Node: A broker.
type Node struct {
	NodeID int  `json:"node_id"`
	IsUp   bool `json:"is_up"`
	// The listening address, as HOST:PORT.
	Address string  `json:"address"`
	Rack    *string `json:"rack"`
}

// PartitionLag: The lag of a group in one partition.
type PartitionLag struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Lag       int64  `json:"lag"`
}

// ProducedRecords: The appended records, in order.
type ProducedRecords struct {
	Records  []RecordMetadata `json:"records"`
	Warnings []string         `json:"warnings"`
}

// Push: The metrics that a client has sent in one request.
type Push struct {
	ClientInstanceID string `json:"client_instance_id"`
	ClientID         string `json:"client_id"`
	ClientHost       string `json:"client_host"`
	// Time of arrival, in milliseconds since the epoch.
	Timestamp int64 `json:"timestamp"`
	// Whether the client announced that it is closing.
	IsLast  bool     `json:"is_last"`
	Metrics []Metric `json:"metrics"`
}

// Record: A record as a consumer receives it, with details of its storage.
type Record struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	// ms since the epoch; -1 in format v0.
	Timestamp int64 `json:"timestamp"`
	// `CreateTime`, `LogAppendTime`, or `NoTimestampType`.
	TimestampType string `json:"timestamp_type"`
	// Shown according to `format`.
	Key Payload `json:"key"`
	// Shown according to `format`.
	Value   Payload  `json:"value"`
	Headers []Header `json:"headers"`
	// 0, 1 or 2.
	MessageFormat int    `json:"message_format"`
	Codec         string `json:"codec"`
	// -1 for a producer that is not idempotent.
	ProducerID int64 `json:"producer_id"`
}

// RecordMetadata: The partition and the offset of a new record.
type RecordMetadata struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// RecordPart: Some records of a topic, ordered by partition.
type RecordPart struct {
	Records []Record `json:"records"`
	// The next `start` by partition, or empty after the last record.
	NextOffsets map[string]int64 `json:"next_offsets"`
}

// Rule: An access rule.
type Rule struct {
	ResourceType string `json:"resource_type"`
	ResourceName string `json:"resource_name"`
	PatternType  string `json:"pattern_type"`
	Principal    string `json:"principal"`
	Host         string `json:"host"`
	Operation    string `json:"operation"`
	Permission   string `json:"permission"`
}

// SharePartition: The state of a share-partition (KIP-932).
type SharePartition struct {
	Topic       string `json:"topic"`
	Partition   int    `json:"partition"`
	StartOffset *int64 `json:"start_offset"`
	Lag         *int64 `json:"lag"`
	// The number of offsets acquired by members.
	Acquired int64      `json:"acquired"`
	InFlight []InFlight `json:"in_flight"`
}

// Snapshot: A snapshot.
type Snapshot struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
}

// Status: The state of the broker.
type Status struct {
	Status string `json:"status"`
}

// Topic: A topic.
type Topic struct {
	Name string `json:"name"`
	// The id in Kafka's text format.
	TopicID    string `json:"topic_id"`
	Partitions int    `json:"partitions"`
	// The values that differ from the broker's defaults.
	Configs    map[string]string `json:"configs"`
	IsInternal bool              `json:"is_internal"`
}

// TopicList: A page of topics, sorted by name.
type TopicList struct {
	Topics    []Topic `json:"topics"`
	NextAfter *string `json:"next_after"`
}
