package control

import "time"

// Ptr returns a pointer to a value, for fields where nil means "not given".
func Ptr[T any](value T) *T { return &value }

// NoWait as a Timeout looks once and does not wait. A Timeout of 0 is the broker's own: 10 seconds.
const NoWait time.Duration = -1

func seconds(timeout time.Duration) *float64 {
	switch {
	case timeout == 0:
		return nil
	case timeout < 0:
		return Ptr(0.0)
	default:
		return Ptr(timeout.Seconds())
	}
}

// BrokerInfo is the brokers as one.
type BrokerInfo struct {
	Name             string `json:"name"`
	Version          string `json:"version"`
	ClusterID        string `json:"cluster_id"`
	BootstrapServers string `json:"bootstrap_servers"`
	// Controller is its node id; nil while no broker is up.
	Controller *int `json:"controller"`
}

// Status is "ok" or "down".
type Status struct {
	Status string `json:"status"`
}

// NewTopic is a topic to be made. It has either a name or a prefix, to which the broker adds random digits.
type NewTopic struct {
	Name              string         `json:"name,omitempty"`
	Prefix            string         `json:"prefix,omitempty"`
	Partitions        int            `json:"partitions,omitempty"`
	ReplicationFactor int            `json:"replication_factor,omitempty"`
	Configs           map[string]any `json:"configs,omitempty"`
}

// Topic is a topic. Configs are those that differ from the broker's defaults.
type Topic struct {
	Name       string            `json:"name"`
	TopicID    string            `json:"topic_id"`
	Partitions int               `json:"partitions"`
	Configs    map[string]string `json:"configs"`
	IsInternal bool              `json:"is_internal"`
}

// TopicList is some topics, by name. NextAfter goes on; nil once all were listed.
type TopicList struct {
	Topics    []Topic `json:"topics"`
	NextAfter *string `json:"next_after"`
}

// Page chooses a part of a list: what sorts behind After, at most Limit of it. 0 is the broker's limit, 1000.
type Page struct {
	After string
	Limit int
}

// NewRecord is a record to be written. Of key, value and headers a string stands for its UTF-8, []byte for itself, nil
// for null, and anything else for its JSON.
type NewRecord struct {
	Value   any
	Key     any
	Headers []NewHeader
	// Timestamp is ms since the epoch; nil for the broker's time.
	Timestamp *int64
	// Partition is nil for the one that the key decides.
	Partition *int
}

// NewHeader is a header to be written.
type NewHeader struct {
	Name  string
	Value any
}

// ProduceOptions choose the message format (v2, v1 or v0) and the codec (none, gzip, snappy, lz4 or zstd).
type ProduceOptions struct {
	MessageFormat string
	Codec         string
}

// RecordMetadata is the partition and the offset that a record got.
type RecordMetadata struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// ProducedRecords is the places of records that were appended, in their order.
type ProducedRecords struct {
	Records  []RecordMetadata `json:"records"`
	Warnings []string         `json:"warnings"`
}

// Header is a header of a record.
type Header struct {
	Name  string  `json:"name"`
	Value Payload `json:"value"`
}

// Record is a record as a consumer would get it, and how it is stored.
type Record struct {
	Topic         string   `json:"topic"`
	Partition     int      `json:"partition"`
	Offset        int64    `json:"offset"`
	Timestamp     int64    `json:"timestamp"`
	TimestampType string   `json:"timestamp_type"`
	Key           Payload  `json:"key"`
	Value         Payload  `json:"value"`
	Headers       []Header `json:"headers"`
	MessageFormat int      `json:"message_format"`
	Codec         string   `json:"codec"`
	ProducerID    int64    `json:"producer_id"`
}

// ReadOptions choose records of a topic. Zero values stand for the broker's defaults: all partitions from offset 0 on,
// committed records only, at most 10,000 of them, as text.
type ReadOptions struct {
	Partition *int
	Start     int64
	Isolation string
	Limit     int
	Format    Format
}

// RecordPart is some records of a topic, partition by partition. NextOffsets has by partition the Start that goes on; it
// is empty once all was read.
type RecordPart struct {
	Records     []Record         `json:"records"`
	NextOffsets map[string]int64 `json:"next_offsets"`
}

// Expectation is an expected record. What is nil may be anything; [Null] is null. Of a JSON object only the given
// members count.
type Expectation struct {
	Value     any
	Key       any
	Headers   map[string]any
	Partition *int
	Timeout   time.Duration
}

// Absence is a record that must not be there. Within is how long none may come; 0 looks once.
type Absence struct {
	Value     any
	Key       any
	Headers   map[string]any
	Partition *int
	Within    time.Duration
}

// Matching is what the records that are waited for have to match.
type Matching struct {
	Value     any
	Key       any
	Headers   map[string]any
	Partition *int
	Offset    *int64
	Timestamp *int64
}

// RecordWait tells which records count, nil for all, and how long to wait for them.
type RecordWait struct {
	Matching *Matching
	Timeout  time.Duration
}

// GroupIDs is some consumer groups. NextAfter goes on; nil once all were listed.
type GroupIDs struct {
	Groups    []string `json:"groups"`
	NextAfter *string  `json:"next_after"`
}

// Committed is the committed offset of a partition.
type Committed struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// PartitionLag is the offsets that a group is behind in a partition.
type PartitionLag struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Lag       int64  `json:"lag"`
}

// InFlight is neighboring offsets that were delivered to a share group and are in the same state, the last one
// included. MemberID is nil where no member has acquired them.
type InFlight struct {
	FirstOffset   int64   `json:"first_offset"`
	LastOffset    int64   `json:"last_offset"`
	State         string  `json:"state"`
	DeliveryCount int     `json:"delivery_count"`
	MemberID      *string `json:"member_id"`
}

// SharePartition is a partition as a share group sees it. StartOffset and Lag are nil before the first read.
type SharePartition struct {
	Topic       string     `json:"topic"`
	Partition   int        `json:"partition"`
	StartOffset *int64     `json:"start_offset"`
	Lag         *int64     `json:"lag"`
	Acquired    int64      `json:"acquired"`
	InFlight    []InFlight `json:"in_flight"`
}

// Lag is the offsets that a group is behind. It has a warning if there is no such group.
type Lag struct {
	Total      int64          `json:"total"`
	Partitions []PartitionLag `json:"partitions"`
	Warnings   []string       `json:"warnings"`
}

// Assigned is a partition of a member of a group.
type Assigned struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

// Member is a member of a group. Partitions is nil while it waits, or when it is not a consumer.
type Member struct {
	MemberID        string     `json:"member_id"`
	GroupInstanceID *string    `json:"group_instance_id"`
	ClientID        string     `json:"client_id"`
	ClientHost      string     `json:"client_host"`
	Partitions      []Assigned `json:"partitions"`
}

// Group is a group at one moment.
type Group struct {
	GroupID    string   `json:"group_id"`
	Type       string   `json:"type"`
	State      string   `json:"state"`
	IsStable   bool     `json:"is_stable"`
	Generation int      `json:"generation"`
	Protocol   *string  `json:"protocol"`
	Members    []Member `json:"members"`
}

// GroupWait tells how many members a group has to have, nil for any, and how long to wait.
type GroupWait struct {
	Members *int
	Timeout time.Duration
}

// CatchingUp names the topic that a group has to have read, "" for all, and how long to wait.
type CatchingUp struct {
	Topic   string
	Timeout time.Duration
}

// Quota limits an entity. Entity has a "user", a "client-id", both, or an "ip"; nil is the default of its kind. Limits
// are Kafka's, per second: "producer_byte_rate"; nil removes one.
type Quota struct {
	Entity map[string]*string  `json:"entity"`
	Limits map[string]*float64 `json:"limits"`
}

// NewRule permits or denies operations on resources.
type NewRule struct {
	// Permission is "allow", also when it is "", or "deny".
	Permission string `json:"permission,omitempty"`
	// Principal is "User:alice", or just the name; "User:*" is every user.
	Principal string `json:"principal"`
	// Operations are "read", "write", "describe" ..., or "all".
	Operations      []string `json:"operations"`
	Topic           string   `json:"topic,omitempty"`
	Group           string   `json:"group,omitempty"`
	TransactionalID string   `json:"transactional_id,omitempty"`
	Cluster         bool     `json:"cluster,omitempty"`
	// Prefixed is for all names that begin so.
	Prefixed bool   `json:"prefixed,omitempty"`
	Host     string `json:"host,omitempty"`
}

// Rule is one rule.
type Rule struct {
	ResourceType string `json:"resource_type"`
	ResourceName string `json:"resource_name"`
	PatternType  string `json:"pattern_type"`
	Principal    string `json:"principal"`
	Host         string `json:"host"`
	Operation    string `json:"operation"`
	Permission   string `json:"permission"`
}

// Metric is a metric of a client.
type Metric struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Push is the metrics that a client has sent at once (KIP-714).
type Push struct {
	ClientInstanceID string   `json:"client_instance_id"`
	ClientID         string   `json:"client_id"`
	ClientHost       string   `json:"client_host"`
	Timestamp        int64    `json:"timestamp"`
	IsLast           bool     `json:"is_last"`
	Metrics          []Metric `json:"metrics"`
}

// NewSnapshot names a snapshot and the directory for it on the broker's machine; "" leaves either to the broker.
type NewSnapshot struct {
	Name      string `json:"name,omitempty"`
	Directory string `json:"directory,omitempty"`
}

// Snapshot is a snapshot.
type Snapshot struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
}

// Node is one broker. Address is HOST:PORT.
type Node struct {
	NodeID  int     `json:"node_id"`
	IsUp    bool    `json:"is_up"`
	Address string  `json:"address"`
	Rack    *string `json:"rack"`
}

// JournalInfo tells whether a journal is kept, and how many requests have come since it was begun.
type JournalInfo struct {
	IsKept bool `json:"is_kept"`
	Count  int  `json:"count"`
}

// RequestFilter chooses requests of the journal; they match all that is given. Names may have the wildcards * and ?.
type RequestFilter struct {
	API      string
	ClientID string
	Topic    string
	Group    string
	// Error is the name or number of an error in the answer.
	Error string
	// After leaves out the requests up to this number.
	After int
	// Limit is for the newest that fit; 0 is the broker's, 1000.
	Limit int
}

// RequestWait tells which requests count, and how long to wait for them.
type RequestWait struct {
	API      string
	ClientID string
	Topic    string
	Group    string
	Error    string
	Timeout  time.Duration
}

// JournalEntry is a request and its answer, with Kafka's own field names.
type JournalEntry struct {
	Number        int            `json:"number"`
	Time          int64          `json:"time"`
	Connection    string         `json:"connection"`
	Node          int            `json:"node"`
	ClientHost    string         `json:"client_host"`
	ClientID      *string        `json:"client_id"`
	API           string         `json:"api"`
	Version       int            `json:"version"`
	CorrelationID int            `json:"correlation_id"`
	Request       map[string]any `json:"request"`
	Response      map[string]any `json:"response"`
	Errors        []string       `json:"errors"`
	DurationMs    *float64       `json:"duration_ms"`
	BytesIn       int            `json:"bytes_in"`
	BytesOut      int            `json:"bytes_out"`
	Fault         *Fault         `json:"fault"`
	Failure       *string        `json:"failure"`
}

// JournalEntries is requests of clients and their responses, oldest first. Count also has those that do not fit.
type JournalEntries struct {
	Count    int            `json:"count"`
	Requests []JournalEntry `json:"requests"`
}

// Fault is what goes wrong, for whom and how often. docs/faults.md describes each field.
type Fault struct {
	API             string  `json:"api,omitempty"`
	Versions        any     `json:"versions,omitempty"`
	Node            *int    `json:"node,omitempty"`
	ClientID        *string `json:"client_id,omitempty"`
	Topic           string  `json:"topic,omitempty"`
	Partition       *int    `json:"partition,omitempty"`
	Group           *string `json:"group,omitempty"`
	TransactionalID *string `json:"transactional_id,omitempty"`
	Nth             int     `json:"nth,omitempty"`
	After           int     `json:"after,omitempty"`
	Times           int     `json:"times,omitempty"`
	Probability     float64 `json:"probability,omitempty"`
	Seed            *int    `json:"seed,omitempty"`
	// Error is the name or the number of an error.
	Error         any     `json:"error,omitempty"`
	Drop          string  `json:"drop,omitempty"`
	Disconnect    string  `json:"disconnect,omitempty"`
	BlackHole     bool    `json:"black_hole,omitempty"`
	Truncate      *int    `json:"truncate,omitempty"`
	Corrupt       string  `json:"corrupt,omitempty"`
	StaleMetadata int     `json:"stale_metadata,omitempty"`
	DelayMs       float64 `json:"delay_ms,omitempty"`
	ThrottleMs    int     `json:"throttle_ms,omitempty"`
}

// InstalledFault is a fault, and how many requests it has hit. AddFault gives it a warning if it probably hits nothing.
type InstalledFault struct {
	ID       string   `json:"id"`
	Fired    int      `json:"fired"`
	Fault    Fault    `json:"fault"`
	Warnings []string `json:"warnings"`
}

// FaultHits is a fault, and the newest 1000 requests that it has hit.
type FaultHits struct {
	InstalledFault
	Hits []JournalEntry `json:"hits"`
}
