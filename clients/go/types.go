package minibroker

import "time"

// Ptr returns a pointer to a value, for fields in which nil means that no value is given.
func Ptr[T any](value T) *T { return &value }

// NoWait as a Timeout checks once and does not wait. A Timeout of 0 is the broker's default of 10 seconds.
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

// NewTopic is a topic to create. It has either a name or a prefix, to which the broker appends random digits.
type NewTopic struct {
	Name              string         `json:"name,omitempty"`
	Prefix            string         `json:"prefix,omitempty"`
	Partitions        int            `json:"partitions,omitempty"`
	ReplicationFactor int            `json:"replication_factor,omitempty"`
	Configs           map[string]any `json:"configs,omitempty"`
}

// Page is a part of a list: at most Limit names sorted after After. A Limit of 0 is the broker's limit of 1000.
type Page struct {
	After string
	Limit int
}

// NewRecord is a record to write. In key, value and headers, a string is stored as UTF-8, []byte unchanged, nil as
// null, and anything else as JSON.
type NewRecord struct {
	Value   any
	Key     any
	Headers []NewHeader
	// Timestamp is in milliseconds since the epoch, or nil for the broker's time.
	Timestamp *int64
	// Partition is nil to choose the partition by the key.
	Partition *int
}

// NewHeader is a header to write.
type NewHeader struct {
	Name  string
	Value any
}

// ProduceOptions have the message format (v2, v1 or v0) and the codec (none, gzip, snappy, lz4 or zstd).
type ProduceOptions struct {
	MessageFormat string
	Codec         string
	// Schema and KeySchema are subjects whose latest schemas encode the values and the keys.
	Schema    string
	KeySchema string
}

// ReadOptions select records of a topic. Zero values stand for the broker's defaults: all partitions from offset 0,
// only committed records, at most 10,000 of them, as text.
type ReadOptions struct {
	Partition *int
	Start     int64
	Isolation string
	Limit     int
	Format    Format
}

// Expectation is an expected record. A nil field matches anything, and [Null] matches null. JSON objects are compared
// by the given members only.
type Expectation struct {
	Value     any
	Key       any
	Headers   map[string]any
	Partition *int
	Timeout   time.Duration
}

// Absence is a record that must not exist. Within is how long to keep checking, or 0 to check once.
type Absence struct {
	Value     any
	Key       any
	Headers   map[string]any
	Partition *int
	Within    time.Duration
}

// Matching has the conditions for the records to wait for.
type Matching struct {
	Value     any
	Key       any
	Headers   map[string]any
	Partition *int
	Offset    *int64
	Timestamp *int64
}

// RecordWait has the conditions for the records, or nil for all records, and the timeout.
type RecordWait struct {
	Matching *Matching
	Timeout  time.Duration
}

// GroupWait has the number of members to wait for, or nil for any number, and the timeout.
type GroupWait struct {
	Members *int
	Timeout time.Duration
}

// CatchingUp has the topic that a group is expected to have read, or "" for all topics, and the timeout.
type CatchingUp struct {
	Topic   string
	Timeout time.Duration
}

// Checking names a check, such as "no_loss", and the topics that an application reads and writes. Key and OutputKey
// are "key" (the default), "value", "header:NAME" or "json:FIELD". Expected has the ids of the outputs of an input, by
// its id. Instances has the client id of the producer for that of each consumer. Timeout, in seconds, is for "caught_up".
type Checking struct {
	Check     string              `json:"check"`
	Inputs    []string            `json:"inputs,omitempty"`
	Outputs   []string            `json:"outputs,omitempty"`
	Key       string              `json:"key,omitempty"`
	OutputKey string              `json:"output_key,omitempty"`
	Expected  map[string][]string `json:"expected,omitempty"`
	Group     string              `json:"group,omitempty"`
	Instances map[string]string   `json:"instances,omitempty"`
	Timeout   float64             `json:"timeout,omitempty"`
}

// ChaosOptions names the profile, "default" if it is empty, and misbehaviours to use instead of its own, or to leave out.
type ChaosOptions struct {
	Profile string   `json:"profile,omitempty"`
	Only    []string `json:"only,omitempty"`
	Without []string `json:"without,omitempty"`
}

// Quota limits an entity. Entity has a "user", a "client-id", both, or an "ip". Nil stands for the default entity.
// Limits are per second under Kafka's names, such as "producer_byte_rate". Nil removes a limit.
type Quota struct {
	Entity map[string]*string  `json:"entity"`
	Limits map[string]*float64 `json:"limits"`
}

// NewRule allows or denies operations on resources.
type NewRule struct {
	// Permission is "allow", which is the default, or "deny".
	Permission string `json:"permission,omitempty"`
	// Principal is "User:alice" or just the name. "User:*" matches every user.
	Principal string `json:"principal"`
	// Operations are "read", "write", "describe" ..., or "all".
	Operations      []string `json:"operations"`
	Topic           string   `json:"topic,omitempty"`
	Group           string   `json:"group,omitempty"`
	TransactionalID string   `json:"transactional_id,omitempty"`
	Cluster         bool     `json:"cluster,omitempty"`
	// Prefixed applies the rule to all names with this prefix.
	Prefixed bool   `json:"prefixed,omitempty"`
	Host     string `json:"host,omitempty"`
}

// NewSnapshot has the name of a snapshot and its directory on the broker's machine. The broker chooses either if it is
// "".
type NewSnapshot struct {
	Name      string `json:"name,omitempty"`
	Directory string `json:"directory,omitempty"`
}

// RequestFilter selects requests of the journal that match all given fields. Names can have the wildcards * and ?.
type RequestFilter struct {
	API      string
	ClientID string
	Topic    string
	Group    string
	// Error is the name or number of an error in the response.
	Error string
	// After skips the requests up to this number.
	After int
	// Limit is the maximum number of matching requests, newest first. 0 is the broker's limit of 1000.
	Limit int
}

// RequestWait has the conditions for the requests, and the timeout.
type RequestWait struct {
	API      string
	ClientID string
	Topic    string
	Group    string
	Error    string
	Timeout  time.Duration
}

// Fault has the effect of a fault, the requests that it hits, and its limits. docs/faults.md describes each field.
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
	Error          any     `json:"error,omitempty"`
	Applied        bool    `json:"applied,omitempty"`
	Drop           string  `json:"drop,omitempty"`
	Disconnect     string  `json:"disconnect,omitempty"`
	Late           int     `json:"late,omitempty"`
	BlackHole      bool    `json:"black_hole,omitempty"`
	Truncate       *int    `json:"truncate,omitempty"`
	Corrupt        string  `json:"corrupt,omitempty"`
	StaleMetadata  int     `json:"stale_metadata,omitempty"`
	FetchBytes     *int    `json:"fetch_bytes,omitempty"`
	DelayMs        float64 `json:"delay_ms,omitempty"`
	JitterMs       float64 `json:"jitter_ms,omitempty"`
	ThrottleMs     int     `json:"throttle_ms,omitempty"`
	BytesPerSecond int     `json:"bytes_per_second,omitempty"`
	SliceBytes     int     `json:"slice_bytes,omitempty"`
}

// FaultHits is a fault and the newest 1000 requests that it has hit.
type FaultHits struct {
	InstalledFault
	Hits []JournalEntry `json:"hits"`
}
