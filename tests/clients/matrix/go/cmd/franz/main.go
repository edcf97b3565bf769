// Command franz checks what franz-go can do with a broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	. "minibroker.test/matrix/checks"
)

type options = []kgo.Opt

func open(more ...kgo.Opt) *kgo.Client {
	all := append(options{
		kgo.SeedBrokers(Bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.ProducerLinger(0),
	}, more...)
	client, err := kgo.NewClient(all...)
	if err != nil {
		panic(err)
	}
	return client
}

func admin() *kadm.Client { return kadm.NewClient(open()) }

func newTopic(ctx context.Context, name string, partitions int32) string {
	topic := Prefix + "-" + name
	each := admin()
	defer each.Close()
	if created, err := each.CreateTopics(ctx, partitions, 1, nil, topic); err != nil || created[topic].Err != nil {
		panic(fmt.Sprint(err, created[topic].Err))
	}
	return topic
}

func send(ctx context.Context, topic string, more options, values ...string) error {
	records := []*kgo.Record{}
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(value)})
	}
	return sendAll(ctx, more, records...)
}

func sendAll(ctx context.Context, more options, records ...*kgo.Record) error {
	client := open(more...)
	defer client.Close()
	return client.ProduceSync(ctx, records...).FirstErr()
}

func read(ctx context.Context, topic string, count int, start int64, more ...kgo.Opt) []*kgo.Record {
	client := open(append(more, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}}))...)
	defer client.Close()
	return poll(ctx, client, count)
}

func poll(ctx context.Context, client *kgo.Client, count int) []*kgo.Record {
	found := []*kgo.Record{}
	for len(found) < count {
		fetches := client.PollRecords(ctx, count-len(found))
		if err := fetches.Err(); err != nil {
			panic(fmt.Sprintf("%d of %d records came: %v", len(found), count, err))
		}
		found = append(found, fetches.Records()...)
	}
	return found
}

func values(records []*kgo.Record) []string {
	found := []string{}
	for _, each := range records {
		found = append(found, string(each.Value))
	}
	return found
}

func roundTrip(name string, more ...kgo.Opt) Check {
	return Check{name, func(ctx context.Context) error {
		topic := newTopic(ctx, name, 1)
		if err := send(ctx, topic, more, Values()...); err != nil {
			return err
		}
		found := values(read(ctx, topic, 20, 0))
		return That(slices.Equal(found, Values()), found)
	}}
}

func nulls(ctx context.Context) error {
	topic := newTopic(ctx, "nulls", 1)
	err := sendAll(ctx, nil,
		&kgo.Record{Topic: topic, Key: []byte("k")},
		&kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte{}},
		&kgo.Record{Topic: topic, Key: []byte{}, Value: []byte("v")})
	if err != nil {
		return err
	}
	found := read(ctx, topic, 3, 0)
	return That(found[0].Value == nil && found[1].Value != nil && found[2].Key != nil && len(found[2].Key) == 0, found)
}

func headers(ctx context.Context) error {
	topic := newTopic(ctx, "headers", 1)
	some := []kgo.RecordHeader{{Key: "a", Value: []byte{1}}, {Key: "a", Value: []byte{}}, {Key: "b", Value: nil}}
	if err := sendAll(ctx, nil, &kgo.Record{Topic: topic, Value: []byte("v"), Headers: some}); err != nil {
		return err
	}
	found := read(ctx, topic, 1, 0)[0].Headers
	return That(fmt.Sprint(found) == fmt.Sprint(some) && found[2].Value == nil, found)
}

func transactional(name string) *kgo.Client { return open(kgo.TransactionalID(Prefix + "-" + name)) }

func transact(ctx context.Context, client *kgo.Client, topic, value string, end kgo.TransactionEndTry) error {
	return errors.Join(
		client.BeginTransaction(),
		client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(),
		client.EndTransaction(ctx, end))
}

func transactionCommit(ctx context.Context) error {
	topic := newTopic(ctx, "transaction-commit", 1)
	client := transactional("commit")
	defer client.Close()
	if err := errors.Join(transact(ctx, client, topic, "1", kgo.TryCommit), transact(ctx, client, topic, "2", kgo.TryCommit)); err != nil {
		return err
	}
	found := values(read(ctx, topic, 2, 0, kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	return That(slices.Equal(found, []string{"1", "2"}), found)
}

func transactionAbort(ctx context.Context) error {
	topic := newTopic(ctx, "transaction-abort", 1)
	client := transactional("abort")
	defer client.Close()
	err := errors.Join(transact(ctx, client, topic, "aborted", kgo.TryAbort), transact(ctx, client, topic, "committed", kgo.TryCommit))
	if err != nil {
		return err
	}
	found := values(read(ctx, topic, 1, 0, kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	all := values(read(ctx, topic, 2, 0))
	return That(slices.Equal(found, []string{"committed"}) && slices.Equal(all, []string{"aborted", "committed"}), found, all)
}

func transactionOffsets(ctx context.Context) error {
	topic := newTopic(ctx, "transaction-offsets", 1)
	group := Prefix + "-transaction-offsets"
	if err := send(ctx, topic, nil, "1"); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(Bootstrap), kgo.TransactionalID(group), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.PollFetches(ctx).Err(); err != nil {
		return err
	}
	if err := session.Begin(); err != nil {
		return err
	}
	if err := session.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
		return err
	}
	committed, err := session.End(ctx, kgo.TryCommit)
	if err != nil || !committed {
		return fmt.Errorf("not committed: %w", err)
	}
	return offsetIs(ctx, group, topic, 1)
}

func offsetIs(ctx context.Context, group, topic string, wanted int64) error {
	each := admin()
	defer each.Close()
	found, err := each.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	offset, there := found.Lookup(topic, 0)
	return That(there == (wanted >= 0) && (!there || offset.At == wanted), found)
}

func latest(ctx context.Context) error {
	topic := newTopic(ctx, "latest", 1)
	if err := send(ctx, topic, nil, "1", "2"); err != nil {
		return err
	}
	client := open(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	defer client.Close()
	found := make(chan string, 1)
	go func() { found <- string(poll(ctx, client, 1)[0].Value) }()
	// Where the end is, is asked for in the background; so go on sending until something comes.
	for {
		if err := send(ctx, topic, nil, "3"); err != nil {
			return err
		}
		select {
		case value := <-found:
			return That(value == "3", value)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func timestamps(ctx context.Context, name string, times ...int64) (string, error) {
	topic := newTopic(ctx, name, 1)
	for _, each := range times {
		record := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.UnixMilli(each)}
		if err := sendAll(ctx, nil, record); err != nil {
			return topic, err
		}
	}
	return topic, nil
}

func seek(ctx context.Context) error {
	topic := newTopic(ctx, "seek", 1)
	if err := send(ctx, topic, nil, "0", "1", "2", "3", "4"); err != nil {
		return err
	}
	found := values(read(ctx, topic, 2, 3))
	reset := read(ctx, topic, 5, 99, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))[0].Offset
	return That(slices.Equal(found, []string{"3", "4"}) && reset == 0, found, reset)
}

func member(group, topic string, more ...kgo.Opt) *kgo.Client {
	return open(append(options{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(Session),
		kgo.HeartbeatInterval(300 * time.Millisecond),
	}, more...)...)
}

func groupResume(ctx context.Context) error {
	topic, group := newTopic(ctx, "group-resume", 1), Prefix+"-group-resume"
	if err := send(ctx, topic, nil, "1", "2", "3"); err != nil {
		return err
	}
	first := member(group, topic)
	found := poll(ctx, first, 1)
	if err := first.CommitRecords(ctx, found...); err != nil {
		return err
	}
	first.Close()
	second := member(group, topic)
	defer second.Close()
	rest := values(poll(ctx, second, 2))
	return That(slices.Equal(rest, []string{"2", "3"}), rest)
}

// held counts the partitions that are a member's, through its callbacks.
type held struct{ counts chan int }

func (h *held) options() options {
	now := map[int32]bool{}
	note := func(holds bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, moved map[string][]int32) {
			for _, partitions := range moved {
				for _, each := range partitions {
					now[each] = holds
					if !holds {
						delete(now, each)
					}
				}
			}
			h.counts <- len(now)
		}
	}
	return options{kgo.OnPartitionsAssigned(note(true)), kgo.OnPartitionsRevoked(note(false)), kgo.OnPartitionsLost(note(false))}
}

func (h *held) wait(ctx context.Context, wanted int) error {
	for {
		select {
		case count := <-h.counts:
			if count == wanted {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("it never held %d partitions", wanted)
		}
	}
}

func rebalance(name string, more ...kgo.Opt) Check {
	return Check{name, func(ctx context.Context) error {
		topic, group := newTopic(ctx, name, 4), Prefix+"-"+name
		one, two := &held{make(chan int, 100)}, &held{make(chan int, 100)}
		polls := func(client *kgo.Client) {
			for !client.PollFetches(ctx).IsClientClosed() && ctx.Err() == nil {
			}
		}
		first := member(group, topic, append(one.options(), more...)...)
		defer first.Close()
		go polls(first)
		if err := one.wait(ctx, 4); err != nil {
			return err
		}
		second := member(group, topic, append(two.options(), more...)...)
		go polls(second)
		if err := errors.Join(one.wait(ctx, 2), two.wait(ctx, 2)); err != nil {
			return err
		}
		second.Close()
		return one.wait(ctx, 4)
	}}
}

func staticMember(ctx context.Context) error {
	topic, group := newTopic(ctx, "static-member", 1), Prefix+"-static-member"
	if err := send(ctx, topic, nil, "1"); err != nil {
		return err
	}
	for range 2 {
		client := member(group, topic, kgo.InstanceID("one"))
		poll(ctx, client, 1)
		client.Close()
	}
	each := admin()
	defer each.Close()
	found, err := each.DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	members := found[group].Members
	return That(len(members) == 1 && members[0].InstanceID != nil && *members[0].InstanceID == "one", members)
}

func createTopic(ctx context.Context) error {
	topic := newTopic(ctx, "create-topic", 3)
	each := admin()
	defer each.Close()
	again, err := each.CreateTopics(ctx, 3, 1, nil, topic)
	return errors.Join(err, That(errors.Is(again[topic].Err, kerr.TopicAlreadyExists), again))
}

func bigRecords(ctx context.Context) error {
	topic := newTopic(ctx, "big-records", 1)
	value := strings.Repeat("x", 800_000)
	if err := send(ctx, topic, nil, value, value, value, value); err != nil {
		return err
	}
	return That(slices.Equal(values(read(ctx, topic, 4, 0)), []string{value, value, value, value}), "others")
}

func earliest(ctx context.Context) error {
	topic := newTopic(ctx, "earliest", 1)
	if err := send(ctx, topic, nil, "1", "2"); err != nil {
		return err
	}
	client := open(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	found := values(poll(ctx, client, 2))
	return That(slices.Equal(found, []string{"1", "2"}), found)
}

func autoCreate(ctx context.Context) error {
	topic := Prefix + "-auto-create"
	if err := send(ctx, topic, options{kgo.AllowAutoTopicCreation()}, "v"); err != nil {
		return err
	}
	return That(values(read(ctx, topic, 1, 0))[0] == "v", "another one")
}

func main() {
	Run(append([]Check{
		{"create-topic", createTopic},
		roundTrip("produce", kgo.DisableIdempotentWrite()),
		roundTrip("acks-1", kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()),
		roundTrip("acks-0", kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()),
		roundTrip("gzip", kgo.ProducerBatchCompression(kgo.GzipCompression())),
		roundTrip("snappy", kgo.ProducerBatchCompression(kgo.SnappyCompression())),
		roundTrip("lz4", kgo.ProducerBatchCompression(kgo.Lz4Compression())),
		roundTrip("zstd", kgo.ProducerBatchCompression(kgo.ZstdCompression())),
		{"big-records", bigRecords},
		{"headers", headers},
		{"nulls", nulls},
		roundTrip("idempotent"),
		{"transaction-commit", transactionCommit},
		{"transaction-abort", transactionAbort},
		{"transaction-offsets", transactionOffsets},
		{"earliest", earliest},
		{"latest", latest},
		{"seek", seek},
		{"auto-create", autoCreate},
		{"group-resume", groupResume},
		rebalance("group-rebalance", kgo.Balancers(kgo.RangeBalancer())),
		{"static-member", staticMember},
	}, adminChecks()...))
}
