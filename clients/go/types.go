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

// NewTopic is a topic to be made. It has either a name or a prefix, to which the broker adds random digits.
type NewTopic struct {
	Name              string         `json:"name,omitempty"`
	Prefix            string         `json:"prefix,omitempty"`
	Partitions        int            `json:"partitions,omitempty"`
	ReplicationFactor int            `json:"replication_factor,omitempty"`
	Configs           map[string]any `json:"configs,omitempty"`
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

// ReadOptions choose records of a topic. Zero values stand for the broker's defaults: all partitions from offset 0 on,
// committed records only, at most 10,000 of them, as text.
type ReadOptions struct {
	Partition *int
	Start     int64
	Isolation string
	Limit     int
	Format    Format
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

// NewSnapshot names a snapshot and the directory for it on the broker's machine; "" leaves either to the broker.
type NewSnapshot struct {
	Name      string `json:"name,omitempty"`
	Directory string `json:"directory,omitempty"`
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

// FaultHits is a fault, and the newest 1000 requests that it has hit.
type FaultHits struct {
	InstalledFault
	Hits []JournalEntry `json:"hits"`
}
