package minibroker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

var broker *Broker

// TestMain starts the broker that all tests share, with a token, two nodes and a journal.
func TestMain(m *testing.M) {
	isStrict = true
	started, err := Serve(context.Background(), ServeOptions{
		Topics: []string{"given:2"}, Brokers: 2, Registry: true, Token: "secret",
		Args: []string{"--journal", "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	broker = started
	status := m.Run()
	if err := broker.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T comparable](t *testing.T, found, expected T) {
	t.Helper()
	if found != expected {
		t.Fatalf("%v, not %v", found, expected)
	}
}

func begin(t *testing.T) context.Context {
	t.Helper()
	ctx := context.Background()
	check(t, broker.Reset(ctx, false))
	return ctx
}

// ask sends the node an ApiVersions request of version 0, which Kafka clients send first.
func ask(t *testing.T, clientID string) {
	t.Helper()
	address, _, _ := strings.Cut(broker.BootstrapServers, ",")
	connection := must(net.Dial("tcp", address))(t)
	defer connection.Close()
	frame := binary.BigEndian.AppendUint32(nil, uint32(10+len(clientID)))
	frame = append(frame, 0, 18, 0, 0, 0, 0, 0, 7)
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(clientID)))
	must(connection.Write(append(frame, clientID...)))(t)
	size := make([]byte, 4)
	must(io.ReadFull(connection, size))(t)
	must(io.ReadFull(connection, make([]byte, binary.BigEndian.Uint32(size))))(t)
}

func TestTopics(t *testing.T) {
	ctx := begin(t)
	made := must(broker.CreateTopic(ctx, NewTopic{
		Name: "orders", Partitions: 3, ReplicationFactor: 2, Configs: map[string]any{"retention.ms": 1000},
	}))(t)
	same(t, made.Partitions, 3)
	same(t, made.Configs["retention.ms"], "1000")
	fresh := must(broker.CreateTopic(ctx, NewTopic{Prefix: "test-"}))(t)
	same(t, strings.HasPrefix(fresh.Name, "test-"), true)
	page := must(broker.ListTopics(ctx, Page{After: "given", Limit: 1}))(t)
	same(t, page.Topics[0].Name, "orders")
	same(t, *page.NextAfter, "orders")
	same(t, must(broker.DescribeTopic(ctx, "orders"))(t).TopicID, made.TopicID)
	check(t, broker.ConfigureTopic(ctx, "orders", map[string]any{"retention.ms": 5}))
	same(t, *must(broker.ReadTopicConfigs(ctx, "orders"))(t)["retention.ms"], "5")
	check(t, broker.DeleteTopic(ctx, "orders"))
	_, err := broker.DescribeTopic(ctx, "orders")
	same(t, IsNotFound(err), true)
}

func TestSchemas(t *testing.T) {
	ctx := begin(t)
	body := `{"schema": "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"int\"}]}"}`
	url := broker.RegistryURL + "/subjects/orders-value/versions"
	response := must(http.Post(url, "application/json", strings.NewReader(body)))(t)
	check(t, response.Body.Close())
	same(t, response.StatusCode, 200)
	check(t, broker.ResetKeeping(ctx, false, true))
	options := ProduceOptions{Schema: "orders-value", KeySchema: "orders-value"}
	order := NewRecord{Key: map[string]any{"id": 6}, Value: map[string]any{"id": 7}}
	must(broker.Produce(ctx, "orders", options, order))(t)
	found := must(broker.Expect(ctx, "orders", Expectation{Value: map[string]any{"id": 7}}, FormatJSON))(t)
	var key struct{ ID int }
	check(t, found.Key.Decode(&key))
	same(t, key.ID, 6)
}

func TestRecords(t *testing.T) {
	ctx := begin(t)
	places := must(broker.Produce(ctx, "given", ProduceOptions{MessageFormat: "v2", Codec: "gzip"},
		NewRecord{
			Key: "k", Value: map[string]any{"id": 1, "state": "new"}, Partition: Ptr(0), Timestamp: Ptr(int64(5)),
			Headers: []NewHeader{{"trace", "a"}, {"trace", []byte{0xff}}},
		},
		NewRecord{Key: []byte{0xfe}, Value: nil, Partition: Ptr(0)},
		NewRecord{Value: JSON("quoted"), Partition: Ptr(0)},
	))(t)
	same(t, places[1], RecordMetadata{Topic: "given", Partition: 0, Offset: 1})
	same(t, len(must(broker.Produce(ctx, "given", ProduceOptions{}))(t)), 0) // The response has a warning.

	all := must(broker.ReadRecords(ctx, "given", ReadOptions{
		Partition: Ptr(0), Start: 1, Isolation: "read_uncommitted", Limit: 10, Format: FormatBase64,
	}))(t)
	same(t, len(all.Records), 2)
	same(t, string(must(all.Records[0].Key.Bytes())(t)), "\xfe")
	same(t, all.Records[0].Value.IsNull(), true)
	same(t, string(must(all.Records[1].Value.Bytes())(t)), `"quoted"`)
	same(t, must(broker.ReadRecords(ctx, "given", ReadOptions{Limit: 1}))(t).NextOffsets["0"], 1)

	record := must(broker.Expect(ctx, "given", Expectation{
		Key: "k", Value: map[string]any{"id": 1}, Headers: map[string]any{"trace": "a"}, Partition: Ptr(0),
		Timeout: 20 * time.Second,
	}, FormatJSON))(t)
	var order struct{ State string }
	check(t, record.Value.Decode(&order))
	same(t, order.State, "new")
	same(t, record.Headers[0].Value.String(), "a")
	must(broker.Expect(ctx, "given", Expectation{Value: Null, Key: []byte{0xfe}}, FormatText))(t)

	matching := &Matching{
		Key: "k", Value: map[string]any{"id": 1}, Headers: map[string]any{"trace": "a"}, Partition: Ptr(0),
		Offset: Ptr(int64(0)), Timestamp: Ptr(int64(5)),
	}
	found := must(broker.WaitForRecords(ctx, "given", 1, RecordWait{Matching: matching}, FormatText))(t)
	same(t, found[0].Timestamp, 5)
	_, err := broker.WaitForRecords(ctx, "given", 4, RecordWait{Timeout: NoWait}, FormatText)
	same(t, IsTimeout(err), true)

	warnings := must(broker.ExpectNone(ctx, "givn", Absence{}))(t)
	same(t, strings.Contains(warnings[0], "given"), true)
	must(broker.ExpectNone(ctx, "given", Absence{
		Key: "z", Value: "z", Headers: map[string]any{"z": nil}, Partition: Ptr(1), Within: time.Millisecond,
	}))(t)
	_, err = broker.ExpectNone(ctx, "given", Absence{Key: "k"})
	same(t, hasCode(err, "unexpected"), true)
}

func TestGroups(t *testing.T) {
	ctx := begin(t)
	same(t, len(must(broker.ListGroups(ctx, Page{After: "a", Limit: 5}))(t).Groups), 0)
	same(t, must(broker.DescribeGroup(ctx, "team/a"))(t).State, "Dead")
	for _, group := range []string{"a/lag", "/committed"} {
		same(t, must(broker.DescribeGroup(ctx, group))(t).GroupID, group)
	}
	same(t, len(must(broker.CommittedOffsets(ctx, "team/a"))(t)), 0)
	lag := must(broker.GroupLag(ctx, "team/a"))(t)
	same(t, lag.Total, 0)
	same(t, len(lag.Warnings), 1)
	same(t, len(must(broker.SharePartitions(ctx, "team/a"))(t)), 0)
	_, err := broker.WaitUntilStable(ctx, "team/a", GroupWait{Members: Ptr(1), Timeout: NoWait})
	same(t, IsTimeout(err), true)
	_, err = broker.WaitUntilCaughtUp(ctx, "team/a", CatchingUp{Topic: "given", Timeout: NoWait})
	same(t, IsTimeout(err), true)
	same(t, hasCode(broker.Rebalance(ctx, "team/a"), "conflict"), true)
}

func TestChecks(t *testing.T) {
	ctx := begin(t)
	topics := []string{"given"}
	checked := must(broker.CheckApplication(ctx, Checking{
		Check: "no_zombie_writes", Inputs: topics, Outputs: topics, Key: "value", OutputKey: "json:id", Group: "team",
		Expected: map[string][]string{"a": {"b"}}, Instances: map[string]string{"c": "d"}, Timeout: 1,
	}))(t)
	same(t, checked.Outcome, "passed")
	same(t, len(checked.Findings), 0)
}

func TestChaos(t *testing.T) {
	ctx := begin(t)
	options := ChaosOptions{Profile: "network", Only: []string{"answer-late"}, Without: []string{"throttled"}}
	started := must(broker.StartChaos(ctx, 7, options))(t)
	same(t, *started.Seed, int64(7))
	same(t, started.Profile, "network")
	same(t, len(must(broker.ReadChaos(ctx))(t).Steps), 0)
	same(t, must(broker.SettleChaos(ctx))(t).IsFelt, false)
	stopped := must(broker.StopChaos(ctx))(t)
	same(t, len(stopped.Report), 2)
	repeated := must(broker.RepeatChaos(ctx, stopped))(t)
	same(t, repeated.Seed == nil, true)
	must(broker.StopChaos(ctx))(t)
}

func TestSettings(t *testing.T) {
	ctx := begin(t)
	warnings := must(broker.Configure(ctx, map[string]any{"log.retention.ms": 60000, "log.retentoin.ms": 1}))(t)
	same(t, len(warnings), 1)
	user := "alice"
	check(t, broker.SetQuota(ctx, Quota{
		Entity: map[string]*string{"user": &user}, Limits: map[string]*float64{"producer_byte_rate": Ptr(1e6)},
	}))
	for _, rule := range []NewRule{
		{Permission: "deny", Principal: user, Operations: []string{"read"}, Topic: "o", Prefixed: true, Host: "10.0.0.1"},
		{Principal: user, Operations: []string{"read"}, Group: "g"},
		{Principal: user, Operations: []string{"write"}, TransactionalID: "t"},
		{Principal: user, Operations: []string{"alter"}, Cluster: true},
	} {
		same(t, must(broker.CreateACLs(ctx, rule))(t)[0].Principal, "User:alice")
	}
	same(t, len(must(broker.ListACLs(ctx))(t)), 4)
	check(t, broker.DeleteACLs(ctx))
	same(t, len(must(broker.ReadTelemetry(ctx))(t)), 0)
}

func TestTimeAndSnapshots(t *testing.T) {
	ctx := begin(t)
	before := must(broker.ReadClock(ctx))(t)
	after := must(broker.AdvanceClock(ctx, time.Hour))(t)
	same(t, after.Sub(before) >= time.Hour, true)
	same(t, must(broker.RunRetention(ctx))(t), 0)
	must(broker.CreateTopic(ctx, NewTopic{Name: "c", Configs: map[string]any{"cleanup.policy": "compact"}}))(t)
	check(t, broker.Compact(ctx, "c"))

	must(broker.Produce(ctx, "given", ProduceOptions{}, NewRecord{Value: "kept"}))(t)
	taken := must(broker.TakeSnapshot(ctx, NewSnapshot{Name: "a/b", Directory: t.TempDir() + "/snapshot"}))(t)
	check(t, broker.Reset(ctx, true))
	check(t, broker.RestoreSnapshot(ctx, "a/b"))
	must(broker.Expect(ctx, "given", Expectation{Value: "kept"}, FormatText))(t)
	same(t, must(broker.ListSnapshots(ctx))(t)[0], taken)
	check(t, broker.DeleteSnapshot(ctx, "a/b"))
	check(t, broker.Reset(ctx, false))
	check(t, broker.RestoreDirectory(ctx, taken.Directory))
	must(broker.Expect(ctx, "given", Expectation{Value: "kept"}, FormatText))(t)
}

func TestBrokersAndHealth(t *testing.T) {
	ctx := begin(t)
	nodes := must(broker.ListBrokers(ctx))(t)
	same(t, len(nodes), 2)
	check(t, broker.MoveLeader(ctx, "given", 0, nodes[1].NodeID))
	same(t, *must(broker.ReadLeader(ctx, "given", 0))(t), nodes[1].NodeID)
	for _, node := range nodes {
		same(t, must(broker.StopBroker(ctx, node.NodeID))(t).IsUp, false)
	}
	same(t, must(broker.Readyz(ctx))(t).Status, "down")
	for _, node := range nodes {
		same(t, must(broker.StartBroker(ctx, node.NodeID))(t).IsUp, true)
	}
	same(t, must(broker.Readyz(ctx))(t).Status, "ok")
	same(t, must(broker.Healthz(ctx))(t).Status, "ok")
	about := must(broker.About(ctx))(t)
	same(t, about.BootstrapServers, broker.BootstrapServers)
	same(t, about.Version, Version)
	same(t, strings.Contains(must(broker.Metrics(ctx))(t), "kafka_server_"), true)
}

func TestFaultsAndJournal(t *testing.T) {
	ctx := begin(t)
	same(t, must(broker.BeginJournal(ctx, 100))(t).IsKept, true)
	id := must(broker.AddFault(ctx, Fault{API: "ApiVersions", ClientID: Ptr("go-*"), DelayMs: 1, Times: 1}))(t).ID
	ask(t, "go-first")
	ask(t, "go-test")
	entries := must(broker.WaitForRequests(ctx, 2, RequestWait{
		API: "ApiVersions", ClientID: "go-*", Timeout: 20 * time.Second,
	}))(t)
	same(t, *entries.Requests[1].ClientID, "go-test")
	filter := RequestFilter{API: "ApiVersions", ClientID: "go-*", After: entries.Requests[0].Number, Limit: 5}
	same(t, len(must(broker.ListRequests(ctx, filter))(t).Requests), 1)
	filter = RequestFilter{Topic: "given", Group: "g", Error: "NOT_COORDINATOR"}
	same(t, len(must(broker.ListRequests(ctx, filter))(t).Requests), 0)
	_, err := broker.WaitForRequests(ctx, 1, RequestWait{Topic: "given", Group: "g", Error: "16", Timeout: NoWait})
	same(t, IsTimeout(err), true)

	hits := must(broker.ReadFault(ctx, id))(t)
	same(t, hits.Fired, 1)
	same(t, hits.Hits[0].API, "ApiVersions")
	same(t, must(broker.RemoveFault(ctx, id))(t).Fault.Times, 1)
	for _, fault := range []Fault{
		{Versions: "0-3", Node: Ptr(1), Topic: "given", Partition: Ptr(0), Nth: 2, Error: "NOT_LEADER_OR_FOLLOWER"},
		{API: "JoinGroup", Group: Ptr("g"), After: 1, Probability: 0.5, Seed: Ptr(0), Drop: "before"},
		{API: "EndTxn", TransactionalID: Ptr("t"), Disconnect: "after"},
		{API: "OffsetCommit", Late: 2},
		{API: "Produce", Error: 20, Applied: true},
		{API: "Fetch", FetchBytes: Ptr(0)},
		{API: "Heartbeat", BlackHole: true},
		{API: "Heartbeat", Truncate: Ptr(0)},
		{API: "Fetch", Corrupt: "records"},
		{API: "Metadata", StaleMetadata: 1, JitterMs: 1, ThrottleMs: 5, BytesPerSecond: 1e6, SliceBytes: 1000},
	} {
		must(broker.AddFault(ctx, fault))(t)
	}
	same(t, len(must(broker.ListFaults(ctx))(t)), 10)
	check(t, broker.ClearFaults(ctx))
	check(t, broker.ForgetRequests(ctx))
	check(t, broker.EndJournal(ctx))
	same(t, must(broker.ReadJournal(ctx))(t).IsKept, false)
}

func TestErrorsNameTheirCause(t *testing.T) {
	ctx := begin(t)
	_, err := broker.DescribeTopic(ctx, "gvien")
	message := "there is no topic 'gvien'; topics: given; did you mean given?"
	same(t, err.Error(), "minibroker: GET /topics/gvien: 404 not_found: "+message)
	_, err = New(broker.URL(), "wrong").ListBrokers(ctx)
	same(t, strings.Contains(err.Error(), "401 unauthorized: the token is wrong"), true)
	_, err = New("http://127.0.0.1:1", "").ListBrokers(ctx)
	same(t, strings.HasPrefix(err.Error(), "minibroker: no answer of the control plane at http://127.0.0.1:1: "), true)
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err = broker.ListBrokers(ctx)
	same(t, strings.Contains(err.Error(), "context canceled"), true)
}

func TestABrokerThatCannotStartIsAnErrorWithItsWords(t *testing.T) {
	ctx := context.Background()
	_, err := Serve(ctx, ServeOptions{Topics: []string{"a:0"}, Stderr: io.Discard})
	same(t, strings.Contains(err.Error(), "exit status 1"), true)
	same(t, strings.Contains(err.Error(), "topic 'a': Number of partitions"), true)
	_, err = Serve(ctx, ServeOptions{Command: []string{"no-such-program"}})
	same(t, strings.Contains(err.Error(), "MINIBROKER_COMMAND"), true)
}

func TestNothingIsFetchedForAPlatformWithoutAProgram(t *testing.T) {
	t.Setenv("MINIBROKER_COMMAND", "")
	t.Setenv("MINIBROKER_BINARY", "")
	t.Setenv("MINIBROKER_RELEASES", "https://127.0.0.1:1")
	_, err := Serve(context.Background(), ServeOptions{})
	same(t, strings.Contains(err.Error(), "has no checksum of minibroker-"+Version+"-"+platform()), true)
	program := t.TempDir() + "/sh"
	check(t, os.WriteFile(program, []byte("\x7fELF/lib/ld-musl-x86_64.so.1"), 0o600))
	same(t, isMusl(program), true)
	same(t, isMusl(program+"-absent"), false)
}

func TestABrokerIsStoppedOnce(t *testing.T) {
	other := must(Serve(context.Background(), ServeOptions{}))(t)
	check(t, other.Stop())
	check(t, other.Stop())
	_, err := other.Healthz(context.Background())
	same(t, err != nil, true)
}
