package minibroker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

type object = map[string]any

func list[T any](ctx context.Context, c *Client, method, path, member string, body any) ([]T, error) {
	var result map[string][]T
	err := c.call(ctx, method, path, nil, body, &result)
	return result[member], err
}

func one[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	var result T
	err := c.call(ctx, method, path, query, body, &result)
	return result, err
}

func (c *Client) nothing(ctx context.Context, method, path string, body any) error {
	return c.call(ctx, method, path, nil, body, nil)
}

func (c *Client) warnings(ctx context.Context, path string, body any) ([]string, error) {
	return list[string](ctx, c, http.MethodPost, path, "warnings", body)
}

// parameters makes a query from alternating names and values. A parameter with the value "" is omitted.
func parameters(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// number returns a number as text, and "" for 0.
func number[T int | int64](value T) string {
	if value == 0 {
		return ""
	}
	return strconv.FormatInt(int64(value), 10)
}

func given(body object, name string, value any, isGiven bool) {
	if isGiven {
		body[name] = value
	}
}

func criteria(value, key any, headers map[string]any, partition *int) object {
	body := object{}
	given(body, "value", payload(value), value != nil)
	given(body, "key", payload(key), key != nil)
	given(body, "headers", payloads(headers), headers != nil)
	given(body, "partition", partition, partition != nil)
	return body
}

func waiting(body object, timeout time.Duration) object {
	patience := seconds(timeout)
	given(body, "timeout", patience, patience != nil)
	return body
}

// ListTopics returns topics by name.
func (c *Client) ListTopics(ctx context.Context, page Page) (TopicList, error) {
	query := parameters("after", page.After, "limit", number(page.Limit))
	return one[TopicList](ctx, c, http.MethodGet, "/topics", query, nil)
}

// CreateTopic creates a topic.
func (c *Client) CreateTopic(ctx context.Context, topic NewTopic) (Topic, error) {
	return one[Topic](ctx, c, http.MethodPost, "/topics", nil, topic)
}

// DescribeTopic returns one topic.
func (c *Client) DescribeTopic(ctx context.Context, topic string) (Topic, error) {
	return one[Topic](ctx, c, http.MethodGet, path("topics", topic), nil, nil)
}

// DeleteTopic deletes a topic and the offsets that groups have committed for it.
func (c *Client) DeleteTopic(ctx context.Context, topic string) error {
	return c.nothing(ctx, http.MethodDelete, path("topics", topic), nil)
}

// Produce appends records without a Kafka client. A missing topic is created.
func (c *Client) Produce(
	ctx context.Context, topic string, options ProduceOptions, records ...NewRecord,
) ([]RecordMetadata, error) {
	sent := make([]object, len(records))
	for i, record := range records {
		sent[i] = object{"value": payload(record.Value), "key": payload(record.Key)}
		if record.Headers != nil {
			headers := make([][2]any, len(record.Headers))
			for j, header := range record.Headers {
				headers[j] = [2]any{header.Name, payload(header.Value)}
			}
			sent[i]["headers"] = headers
		}
		given(sent[i], "timestamp", record.Timestamp, record.Timestamp != nil)
		given(sent[i], "partition", record.Partition, record.Partition != nil)
	}
	body := object{"records": sent}
	given(body, "message_format", options.MessageFormat, options.MessageFormat != "")
	given(body, "codec", options.Codec, options.Codec != "")
	given(body, "schema", options.Schema, options.Schema != "")
	given(body, "key_schema", options.KeySchema, options.KeySchema != "")
	result, err := one[ProducedRecords](ctx, c, http.MethodPost, path("topics", topic, "records"), nil, body)
	return result.Records, err
}

// ReadRecords returns records of a topic as consumers read them.
func (c *Client) ReadRecords(ctx context.Context, topic string, options ReadOptions) (RecordPart, error) {
	query := parameters(
		"start", number(options.Start), "isolation", options.Isolation,
		"limit", number(options.Limit), "format", string(options.Format),
	)
	if options.Partition != nil {
		query.Set("partition", strconv.Itoa(*options.Partition))
	}
	return one[RecordPart](ctx, c, http.MethodGet, path("topics", topic, "records"), query, nil)
}

// WaitForRecords waits until a topic has at least count matching committed records, and returns all of them.
func (c *Client) WaitForRecords(
	ctx context.Context, topic string, count int, wait RecordWait, format Format,
) ([]Record, error) {
	body := waiting(object{"count": count}, wait.Timeout)
	if match := wait.Matching; match != nil {
		matching := criteria(match.Value, match.Key, match.Headers, match.Partition)
		given(matching, "offset", match.Offset, match.Offset != nil)
		given(matching, "timestamp", match.Timestamp, match.Timestamp != nil)
		body["matching"] = matching
	}
	result, err := one[RecordPart](
		ctx, c, http.MethodPost, path("topics", topic, "records", "wait"), parameters("format", string(format)), body,
	)
	return result.Records, err
}

// Expect waits for a record and returns it. If none arrives, the error compares the expectation with the existing
// records.
func (c *Client) Expect(ctx context.Context, topic string, expected Expectation, format Format) (Record, error) {
	body := waiting(criteria(expected.Value, expected.Key, expected.Headers, expected.Partition), expected.Timeout)
	query := parameters("format", string(format))
	return one[Record](ctx, c, http.MethodPost, path("topics", topic, "records", "expect"), query, body)
}

// ExpectNone returns an error with the code "unexpected" if a topic has a matching record. It returns a warning if the
// topic does not exist but a topic with a similar name does.
func (c *Client) ExpectNone(ctx context.Context, topic string, absent Absence) ([]string, error) {
	body := criteria(absent.Value, absent.Key, absent.Headers, absent.Partition)
	given(body, "within", absent.Within.Seconds(), absent.Within > 0)
	return c.warnings(ctx, path("topics", topic, "records", "expect-none"), body)
}

// ListGroups returns the ids of consumer groups.
func (c *Client) ListGroups(ctx context.Context, page Page) (GroupIDs, error) {
	query := parameters("after", page.After, "limit", number(page.Limit))
	return one[GroupIDs](ctx, c, http.MethodGet, "/groups", query, nil)
}

// CommittedOffsets returns the committed offsets of a group.
func (c *Client) CommittedOffsets(ctx context.Context, group string) ([]Committed, error) {
	return list[Committed](ctx, c, http.MethodGet, path("groups", group, "committed"), "partitions", nil)
}

// GroupLag returns the lag of a group in each partition with a committed offset or an assigned member.
func (c *Client) GroupLag(ctx context.Context, group string) (Lag, error) {
	return one[Lag](ctx, c, http.MethodGet, path("groups", group, "lag"), nil, nil)
}

// SharePartitions returns the partitions of a share group and their records in flight.
func (c *Client) SharePartitions(ctx context.Context, group string) ([]SharePartition, error) {
	return list[SharePartition](ctx, c, http.MethodGet, path("groups", group, "share-partitions"), "partitions", nil)
}

// WaitUntilStable waits until every member has its assignment and every subscribed partition has an owner.
func (c *Client) WaitUntilStable(ctx context.Context, group string, wait GroupWait) (Group, error) {
	body := waiting(object{}, wait.Timeout)
	given(body, "members", wait.Members, wait.Members != nil)
	return one[Group](ctx, c, http.MethodPost, path("groups", group, "wait-until-stable"), nil, body)
}

// WaitUntilCaughtUp waits until a group has read and committed all records.
func (c *Client) WaitUntilCaughtUp(ctx context.Context, group string, wait CatchingUp) ([]Committed, error) {
	body := waiting(object{}, wait.Timeout)
	given(body, "topic", wait.Topic, wait.Topic != "")
	return list[Committed](ctx, c, http.MethodPost, path("groups", group, "wait-until-caught-up"), "partitions", body)
}

// Rebalance makes all members of a group rejoin.
func (c *Client) Rebalance(ctx context.Context, group string) error {
	return c.nothing(ctx, http.MethodPost, path("groups", group, "rebalance"), nil)
}

// DescribeGroup returns the state, generation and members of a group. An unknown group is Dead.
func (c *Client) DescribeGroup(ctx context.Context, group string) (Group, error) {
	return one[Group](ctx, c, http.MethodGet, path("groups", group), nil, nil)
}

// Configure alters configuration keys of the broker. Nil restores a default. It returns a warning for an unknown key.
func (c *Client) Configure(ctx context.Context, configs map[string]any) ([]string, error) {
	return c.warnings(ctx, "/configs", object{"configs": configs})
}

// ReadTopicConfigs returns the configuration of a topic, including the broker's defaults.
func (c *Client) ReadTopicConfigs(ctx context.Context, topic string) (map[string]*string, error) {
	var result map[string]map[string]*string
	err := c.call(ctx, http.MethodGet, path("topics", topic, "configs"), nil, nil, &result)
	return result["configs"], err
}

// ConfigureTopic alters configuration keys of a topic. Nil restores a default.
func (c *Client) ConfigureTopic(ctx context.Context, topic string, configs map[string]any) error {
	return c.nothing(ctx, http.MethodPost, path("topics", topic, "configs"), object{"configs": configs})
}

// SetQuota sets or removes client quotas.
func (c *Client) SetQuota(ctx context.Context, quota Quota) error {
	return c.nothing(ctx, http.MethodPost, "/quotas", quota)
}

// ListACLs returns all access rules.
func (c *Client) ListACLs(ctx context.Context) ([]Rule, error) {
	return list[Rule](ctx, c, http.MethodGet, "/acls", "acls", nil)
}

// CreateACLs allows or denies operations, and returns a rule for each operation.
func (c *Client) CreateACLs(ctx context.Context, rule NewRule) ([]Rule, error) {
	return list[Rule](ctx, c, http.MethodPost, "/acls", "acls", rule)
}

// DeleteACLs deletes all access rules.
func (c *Client) DeleteACLs(ctx context.Context) error {
	return c.nothing(ctx, http.MethodDelete, "/acls", nil)
}

// ReadTelemetry returns the latest metrics that clients have sent about themselves.
func (c *Client) ReadTelemetry(ctx context.Context) ([]Push, error) {
	return list[Push](ctx, c, http.MethodGet, "/telemetry", "pushes", nil)
}

// ReadClock returns the broker's time.
func (c *Client) ReadClock(ctx context.Context) (time.Time, error) {
	return c.clock(ctx, http.MethodGet, "/clock", nil)
}

// AdvanceClock advances the broker's clock and returns the new time.
func (c *Client) AdvanceClock(ctx context.Context, by time.Duration) (time.Time, error) {
	return c.clock(ctx, http.MethodPost, "/clock/advance", object{"seconds": by.Seconds()})
}

func (c *Client) clock(ctx context.Context, method, path string, body any) (time.Time, error) {
	now, err := one[map[string]int64](ctx, c, method, path, nil, body)
	return time.UnixMilli(now["now_ms"]), err
}

// RunRetention runs retention now and returns the number of deleted segments.
func (c *Client) RunRetention(ctx context.Context) (int, error) {
	result, err := one[map[string]int](ctx, c, http.MethodPost, "/retention/run", nil, nil)
	return result["deleted_segments"], err
}

// Compact compacts all records produced so far in a topic, or in all compacted topics for "".
func (c *Client) Compact(ctx context.Context, topic string) error {
	body := object{}
	given(body, "topic", topic, topic != "")
	return c.nothing(ctx, http.MethodPost, "/compact", body)
}

// Reset deletes all records, groups, transactions and faults, and all topics unless keepTopics is set. Topics given to
// the broker at its start are created again. Connections and snapshots stay.
func (c *Client) Reset(ctx context.Context, keepTopics bool) error {
	return c.ResetKeeping(ctx, keepTopics, false)
}

// ResetKeeping is like Reset, and can also keep the subjects of the schema registry.
func (c *Client) ResetKeeping(ctx context.Context, topics, schemas bool) error {
	return c.nothing(ctx, http.MethodPost, "/reset", object{"keep_topics": topics, "keep_schemas": schemas})
}

// ListSnapshots returns the snapshots that were taken over HTTP.
func (c *Client) ListSnapshots(ctx context.Context) ([]Snapshot, error) {
	return list[Snapshot](ctx, c, http.MethodGet, "/snapshots", "snapshots", nil)
}

// TakeSnapshot takes a snapshot of all topics, records, groups and transactions.
func (c *Client) TakeSnapshot(ctx context.Context, snapshot NewSnapshot) (Snapshot, error) {
	return one[Snapshot](ctx, c, http.MethodPost, "/snapshots", nil, snapshot)
}

// RestoreSnapshot replaces the broker's state with a snapshot.
func (c *Client) RestoreSnapshot(ctx context.Context, name string) error {
	return c.nothing(ctx, http.MethodPost, path("snapshots", name, "restore"), nil)
}

// DeleteSnapshot removes a snapshot. Its directory is deleted unless TakeSnapshot named it.
func (c *Client) DeleteSnapshot(ctx context.Context, name string) error {
	return c.nothing(ctx, http.MethodDelete, path("snapshots", name), nil)
}

// RestoreDirectory replaces the broker's state with the snapshot in a directory on the broker's machine.
func (c *Client) RestoreDirectory(ctx context.Context, directory string) error {
	return c.nothing(ctx, http.MethodPost, "/restore", object{"directory": directory})
}

// ListBrokers returns all brokers, up or down.
func (c *Client) ListBrokers(ctx context.Context) ([]Node, error) {
	return list[Node](ctx, c, http.MethodGet, "/brokers", "brokers", nil)
}

// StopBroker stops a broker. Its connections are closed, and other brokers lead its partitions.
func (c *Client) StopBroker(ctx context.Context, nodeID int) (Node, error) {
	return one[Node](ctx, c, http.MethodPost, path("brokers", strconv.Itoa(nodeID), "stop"), nil, nil)
}

// StartBroker starts a broker again at the same address.
func (c *Client) StartBroker(ctx context.Context, nodeID int) (Node, error) {
	return one[Node](ctx, c, http.MethodPost, path("brokers", strconv.Itoa(nodeID), "start"), nil, nil)
}

func leaderOf(topic string, partition int) string {
	return path("topics", topic, "partitions", strconv.Itoa(partition), "leader")
}

// ReadLeader returns the id of the leader of a partition, or nil while there is none.
func (c *Client) ReadLeader(ctx context.Context, topic string, partition int) (*int, error) {
	leader, err := one[map[string]*int](ctx, c, http.MethodGet, leaderOf(topic, partition), nil, nil)
	return leader["node_id"], err
}

// MoveLeader makes another broker the leader of a partition.
func (c *Client) MoveLeader(ctx context.Context, topic string, partition, nodeID int) error {
	return c.nothing(ctx, http.MethodPut, leaderOf(topic, partition), object{"node_id": nodeID})
}

// ReadJournal reports whether a journal is kept.
func (c *Client) ReadJournal(ctx context.Context) (JournalInfo, error) {
	return one[JournalInfo](ctx, c, http.MethodGet, "/journal", nil, nil)
}

// BeginJournal starts a journal that keeps the newest requests, at most capacity of them, or 10,000 for 0.
func (c *Client) BeginJournal(ctx context.Context, capacity int) (JournalInfo, error) {
	body := object{}
	given(body, "capacity", capacity, capacity != 0)
	return one[JournalInfo](ctx, c, http.MethodPut, "/journal", nil, body)
}

// EndJournal stops keeping a journal.
func (c *Client) EndJournal(ctx context.Context) error {
	return c.nothing(ctx, http.MethodDelete, "/journal", nil)
}

// ListRequests returns client requests and their responses. The broker must keep a journal.
func (c *Client) ListRequests(ctx context.Context, filter RequestFilter) (JournalEntries, error) {
	query := parameters(
		"api", filter.API, "client_id", filter.ClientID, "topic", filter.Topic, "group", filter.Group,
		"error", filter.Error, "after", number(filter.After), "limit", number(filter.Limit),
	)
	return one[JournalEntries](ctx, c, http.MethodGet, "/requests", query, nil)
}

// ForgetRequests removes all recorded requests. Their numbers are not reused.
func (c *Client) ForgetRequests(ctx context.Context) error {
	return c.nothing(ctx, http.MethodDelete, "/requests", nil)
}

// WaitForRequests waits for at least count matching requests, and returns all of them.
func (c *Client) WaitForRequests(ctx context.Context, count int, wait RequestWait) (JournalEntries, error) {
	body := waiting(object{"count": count}, wait.Timeout)
	given(body, "api", wait.API, wait.API != "")
	given(body, "client_id", wait.ClientID, wait.ClientID != "")
	given(body, "topic", wait.Topic, wait.Topic != "")
	given(body, "group", wait.Group, wait.Group != "")
	given(body, "error", wait.Error, wait.Error != "")
	return one[JournalEntries](ctx, c, http.MethodPost, "/requests/wait", nil, body)
}

// ListFaults returns the installed faults. Of several matching faults, the first takes effect.
func (c *Client) ListFaults(ctx context.Context) ([]InstalledFault, error) {
	return list[InstalledFault](ctx, c, http.MethodGet, "/faults", "faults", nil)
}

// StartChaos makes the broker misbehave as a Kafka cluster may, until StopChaos. Chaos that is running ends first.
func (c *Client) StartChaos(ctx context.Context, seed int64, options ChaosOptions) (ChaosRun, error) {
	body := struct {
		Seed int64 `json:"seed"`
		ChaosOptions
	}{seed, options}
	return one[ChaosRun](ctx, c, http.MethodPost, "/chaos", nil, body)
}

// RepeatChaos is StartChaos with the steps of an earlier run.
func (c *Client) RepeatChaos(ctx context.Context, run ChaosRun) (ChaosRun, error) {
	return one[ChaosRun](ctx, c, http.MethodPost, "/chaos", nil, map[string]any{"steps": run})
}

// ReadChaos returns what has happened so far.
func (c *Client) ReadChaos(ctx context.Context) (ChaosRun, error) {
	return one[ChaosRun](ctx, c, http.MethodGet, "/chaos", nil, nil)
}

// SettleChaos begins the quiet phase: nothing new goes wrong, what is late is applied, and what is held is released.
func (c *Client) SettleChaos(ctx context.Context) (ChaosRun, error) {
	return one[ChaosRun](ctx, c, http.MethodPost, "/chaos/settle", nil, nil)
}

// StopChaos begins the quiet phase, ends the chaos, and returns what has happened.
func (c *Client) StopChaos(ctx context.Context) (ChaosRun, error) {
	return one[ChaosRun](ctx, c, http.MethodDelete, "/chaos", nil, nil)
}

// CheckApplication judges an application by what the broker saw of it. The test fails unless the outcome is "passed".
func (c *Client) CheckApplication(ctx context.Context, checking Checking) (CheckedApplication, error) {
	return one[CheckedApplication](ctx, c, http.MethodPost, "/check", nil, checking)
}

// AddFault installs a fault. It stays until it is removed or has hit Times requests.
func (c *Client) AddFault(ctx context.Context, fault Fault) (InstalledFault, error) {
	return one[InstalledFault](ctx, c, http.MethodPost, "/faults", nil, fault)
}

// ClearFaults removes all faults.
func (c *Client) ClearFaults(ctx context.Context) error {
	return c.nothing(ctx, http.MethodDelete, "/faults", nil)
}

// ReadFault returns a fault and the requests that it has hit.
func (c *Client) ReadFault(ctx context.Context, id string) (FaultHits, error) {
	return one[FaultHits](ctx, c, http.MethodGet, path("faults", id), nil, nil)
}

// RemoveFault removes a fault and returns the requests that it has hit.
func (c *Client) RemoveFault(ctx context.Context, id string) (FaultHits, error) {
	return one[FaultHits](ctx, c, http.MethodDelete, path("faults", id), nil, nil)
}

// About returns the version of the broker and the addresses for its clients.
func (c *Client) About(ctx context.Context) (BrokerInfo, error) {
	return one[BrokerInfo](ctx, c, http.MethodGet, "/", nil, nil)
}

// Healthz returns "ok" while the broker's event loop is running, and an error otherwise.
func (c *Client) Healthz(ctx context.Context) (Status, error) {
	return one[Status](ctx, c, http.MethodGet, "/healthz", nil, nil)
}

// Readyz returns "ok" while clients can connect, and "down" while no broker is up.
func (c *Client) Readyz(ctx context.Context) (Status, error) {
	status, err := one[Status](ctx, c, http.MethodGet, "/readyz", nil, nil)
	var refused *Error
	if errors.As(err, &refused) && json.Unmarshal(refused.body, &status) == nil && status.Status != "" {
		return status, nil
	}
	return status, err
}

// Metrics returns the broker's metrics in Prometheus' text format.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	content, err := c.ask(ctx, http.MethodGet, "/metrics", nil, nil)
	return string(content), err
}
