// Command sarama checks what sarama can do with a broker, in its default configuration where a check needs no other.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"

	. "minibroker.test/matrix/checks"
)

// needed is the release that the configuration has to name, by check: elderly versions take brokers for 1.0 or 2.1.
var needed = map[string]sarama.KafkaVersion{
	"delete-groups":        sarama.V1_1_0_0,
	"zstd":                 sarama.V2_1_0_0,
	"incremental-configs":  sarama.V2_3_0_0,
	"static-member":        sarama.V2_4_0_0,
	"delete-group-offsets": sarama.V2_4_0_0,
	"elect-leaders":        sarama.V2_4_0_0,
	"reassignments":        sarama.V2_4_0_0,
	"remove-members":       sarama.V2_4_0_0,
	"quotas":               sarama.V2_6_0_0,
	"scram":                sarama.V2_7_0_0,
}

func config(change ...func(*sarama.Config)) *sarama.Config {
	made := sarama.NewConfig()
	made.Producer.Return.Successes = true
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Group.Session.Timeout = Session
	made.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	made.Consumer.MaxWaitTime = 200 * time.Millisecond
	made.RackID = os.Getenv("RACK")
	if asked, there := needed[Name]; there && !made.Version.IsAtLeast(asked) {
		made.Version = asked
	}
	for _, each := range change {
		each(made)
	}
	return made
}

var brokers = []string{Bootstrap}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func admin() sarama.ClusterAdmin { return must(sarama.NewClusterAdmin(brokers, config())) }

func newTopic(name string, partitions int32) string {
	topic := Prefix + "-" + name
	each := admin()
	defer each.Close()
	if err := each.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false); err != nil {
		panic(err)
	}
	return topic
}

func message(topic, value string) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
}

func messages(topic string, values ...string) []*sarama.ProducerMessage {
	made := []*sarama.ProducerMessage{}
	for _, each := range values {
		made = append(made, message(topic, each))
	}
	return made
}

func send(change func(*sarama.Config), all ...*sarama.ProducerMessage) error {
	changes := []func(*sarama.Config){}
	if change != nil {
		changes = append(changes, change)
	}
	producer, err := sarama.NewSyncProducer(brokers, config(changes...))
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.SendMessages(all)
}

func read(ctx context.Context, topic string, count int, start int64, change ...func(*sarama.Config)) []*sarama.ConsumerMessage {
	consumer := must(sarama.NewConsumer(brokers, config(change...)))
	defer consumer.Close()
	partition := must(consumer.ConsumePartition(topic, 0, start))
	defer partition.Close()
	found := []*sarama.ConsumerMessage{}
	for len(found) < count {
		select {
		case each := <-partition.Messages():
			found = append(found, each)
		case <-ctx.Done():
			panic(fmt.Sprintf("%d of %d records came", len(found), count))
		}
	}
	return found
}

func values(records []*sarama.ConsumerMessage) []string {
	found := []string{}
	for _, each := range records {
		found = append(found, string(each.Value))
	}
	return found
}

func roundTrip(name string, change func(*sarama.Config)) Check {
	return Check{name, func(ctx context.Context) error {
		topic := newTopic(name, 1)
		if err := send(change, messages(topic, Values()...)...); err != nil {
			return err
		}
		found := values(read(ctx, topic, 20, 0))
		return That(slices.Equal(found, Values()), found)
	}}
}

func codec(name string, kind sarama.CompressionCodec) Check {
	return roundTrip(name, func(c *sarama.Config) { c.Producer.Compression = kind })
}

func idempotence(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
}

func committed(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted }

func nulls(ctx context.Context) error {
	topic := newTopic("nulls", 1)
	none, empty := message(topic, ""), message(topic, "")
	none.Key, none.Value, empty.Key = sarama.StringEncoder("k"), nil, sarama.StringEncoder("k")
	if err := send(nil, none, empty, message(topic, "v")); err != nil {
		return err
	}
	found := read(ctx, topic, 3, 0)
	return That(found[0].Value == nil && found[1].Value != nil && found[2].Key == nil, found[0], found[1], found[2])
}

func headers(ctx context.Context) error {
	topic := newTopic("headers", 1)
	each := message(topic, "v")
	each.Headers = []sarama.RecordHeader{{Key: []byte("a"), Value: []byte{1}}, {Key: []byte("a"), Value: []byte{}}}
	if err := send(nil, each); err != nil {
		return err
	}
	found := read(ctx, topic, 1, 0)[0].Headers
	return That(len(found) == 2 && string(found[0].Value) == "\x01" && string(found[1].Key) == "a", found)
}

func transactional(name string) sarama.SyncProducer {
	return must(sarama.NewSyncProducer(brokers, config(idempotence, func(c *sarama.Config) {
		c.Producer.Transaction.ID = Prefix + "-" + name
	})))
}

func transact(producer sarama.SyncProducer, end func() error, each *sarama.ProducerMessage) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	if _, _, err := producer.SendMessage(each); err != nil {
		return err
	}
	return end()
}

func transactionCommit(ctx context.Context) error {
	topic := newTopic("transaction-commit", 1)
	producer := transactional("commit")
	defer producer.Close()
	for _, value := range []string{"1", "2"} {
		if err := transact(producer, producer.CommitTxn, message(topic, value)); err != nil {
			return err
		}
	}
	found := values(read(ctx, topic, 2, 0, committed))
	return That(slices.Equal(found, []string{"1", "2"}), found)
}

func transactionAbort(ctx context.Context) error {
	topic := newTopic("transaction-abort", 1)
	producer := transactional("abort")
	defer producer.Close()
	err := errors.Join(
		transact(producer, producer.AbortTxn, message(topic, "aborted")),
		transact(producer, producer.CommitTxn, message(topic, "committed")))
	if err != nil {
		return err
	}
	found, all := values(read(ctx, topic, 1, 0, committed)), values(read(ctx, topic, 2, 0))
	return That(slices.Equal(found, []string{"committed"}) && slices.Equal(all, []string{"aborted", "committed"}), found, all)
}

func transactionOffsets(ctx context.Context) error {
	topic, group := newTopic("transaction-offsets", 1), Prefix+"-transaction-offsets"
	producer := transactional("offsets")
	defer producer.Close()
	offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 1}}}
	err := transact(producer, func() error {
		return errors.Join(producer.AddOffsetsToTxn(offsets, group), producer.CommitTxn())
	}, message(topic, "v"))
	if err != nil {
		return err
	}
	return Eventually(ctx, func() (bool, error) { return offsetIs(group, topic, 1) == nil, nil })
}

// blockOf finds a group's offset in an answer; offsets.go looks at the newer versions of that, too.
var blockOf = func(found *sarama.OffsetFetchResponse, _, topic string) *sarama.OffsetFetchResponseBlock {
	return found.GetBlock(topic, 0)
}

func offsetIs(group, topic string, wanted int64) error {
	each := admin()
	defer each.Close()
	found, err := each.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return err
	}
	block := blockOf(found, group, topic)
	return That(block != nil && block.Offset == wanted, block)
}

// handler is a member of a group; it tells how many partitions it got and hands its records on.
type handler struct {
	partitions chan int
	records    chan *sarama.ConsumerMessage
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	total := 0
	for _, each := range session.Claims() {
		total += len(each)
	}
	h.partitions <- total
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case each, open := <-claim.Messages():
			if !open {
				return nil
			}
			select {
			case h.records <- each:
				if h.records != nil {
					session.MarkMessage(each, "")
					session.Commit()
				}
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// join lets a member take part until the function it returns is called.
func join(ctx context.Context, group, topic string, change ...func(*sarama.Config)) (*handler, func()) {
	member := must(sarama.NewConsumerGroup(brokers, group, config(change...)))
	inner, cancel := context.WithCancel(ctx)
	made := &handler{make(chan int, 100), make(chan *sarama.ConsumerMessage)}
	done := make(chan bool)
	go func() {
		for inner.Err() == nil {
			_ = member.Consume(inner, []string{topic}, made)
		}
		close(done)
	}()
	return made, func() {
		cancel()
		<-done
		_ = member.Close()
	}
}

func (h *handler) wait(ctx context.Context, wanted int) error {
	for {
		select {
		case count := <-h.partitions:
			if count == wanted {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("it never held %d partitions", wanted)
		}
	}
}

func groupResume(ctx context.Context) error {
	topic, group := newTopic("group-resume", 1), Prefix+"-group-resume"
	if err := send(nil, messages(topic, "1", "2", "3")...); err != nil {
		return err
	}
	first, leave := join(ctx, group, topic)
	one := string((<-first.records).Value)
	if err := Eventually(ctx, func() (bool, error) { return offsetIs(group, topic, 1) == nil, nil }); err != nil {
		return err
	}
	leave()
	second, leave := join(ctx, group, topic)
	defer leave()
	two, three := string((<-second.records).Value), string((<-second.records).Value)
	return That(one == "1" && two == "2" && three == "3", one, two, three)
}

func groupRebalance(ctx context.Context) error {
	topic, group := newTopic("group-rebalance", 4), Prefix+"-group-rebalance"
	first, leaveFirst := join(ctx, group, topic)
	defer leaveFirst()
	if err := first.wait(ctx, 4); err != nil {
		return err
	}
	second, leaveSecond := join(ctx, group, topic)
	if err := errors.Join(first.wait(ctx, 2), second.wait(ctx, 2)); err != nil {
		return err
	}
	leaveSecond()
	return first.wait(ctx, 4)
}

func static(c *sarama.Config) { c.Consumer.Group.InstanceId = "one" }

func staticMember(ctx context.Context) error {
	topic, group := newTopic("static-member", 1), Prefix+"-static-member"
	for range 2 {
		member, leave := join(ctx, group, topic, static)
		err := member.wait(ctx, 1)
		leave()
		if err != nil {
			return err
		}
	}
	each := admin()
	defer each.Close()
	found, err := each.DescribeConsumerGroups([]string{group})
	if err != nil {
		return err
	}
	for _, member := range found[0].Members {
		if member.GroupInstanceId != nil && *member.GroupInstanceId == "one" {
			return nil
		}
	}
	return fmt.Errorf("no member with the name one: %+v", found[0])
}

func seek(ctx context.Context) error {
	topic := newTopic("seek", 1)
	if err := send(nil, messages(topic, "0", "1", "2", "3", "4")...); err != nil {
		return err
	}
	found := values(read(ctx, topic, 2, 3))
	consumer := must(sarama.NewConsumer(brokers, config()))
	defer consumer.Close()
	_, err := consumer.ConsumePartition(topic, 0, 99)
	return That(slices.Equal(found, []string{"3", "4"}) && errors.Is(err, sarama.ErrOffsetOutOfRange), found, err)
}

func latest(ctx context.Context) error {
	topic := newTopic("latest", 1)
	if err := send(nil, messages(topic, "1", "2")...); err != nil {
		return err
	}
	consumer := must(sarama.NewConsumer(brokers, config()))
	defer consumer.Close()
	partition := must(consumer.ConsumePartition(topic, 0, sarama.OffsetNewest))
	defer partition.Close()
	if err := send(nil, message(topic, "3")); err != nil {
		return err
	}
	select {
	case each := <-partition.Messages():
		return That(string(each.Value) == "3", each)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func timestamp(context.Context) error {
	topic := newTopic("timestamp", 1)
	for _, time_ := range []int64{1_000_000, 2_000_000, 3_000_000} {
		each := message(topic, "v")
		each.Timestamp = time.UnixMilli(time_)
		if err := send(nil, each); err != nil {
			return err
		}
	}
	client := must(sarama.NewClient(brokers, config()))
	defer client.Close()
	found, err := client.GetOffset(topic, 0, 1_000_001)
	return errors.Join(err, That(found == 1, found))
}

func main() {
	Run(append([]Check{
		{"create-topic", func(context.Context) error {
			topic := newTopic("create-topic", 3)
			each := admin()
			defer each.Close()
			err := each.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}, false)
			return That(errors.Is(err, sarama.ErrTopicAlreadyExists), err)
		}},
		roundTrip("produce", func(c *sarama.Config) { c.Producer.RequiredAcks = sarama.WaitForAll }),
		roundTrip("acks-1", nil),
		roundTrip("acks-0", func(c *sarama.Config) { c.Producer.RequiredAcks = sarama.NoResponse }),
		codec("gzip", sarama.CompressionGZIP),
		codec("snappy", sarama.CompressionSnappy),
		codec("lz4", sarama.CompressionLZ4),
		codec("zstd", sarama.CompressionZSTD),
		{"big-records", func(ctx context.Context) error {
			topic, value := newTopic("big-records", 1), strings.Repeat("x", 800_000)
			if err := send(nil, messages(topic, value, value)...); err != nil {
				return err
			}
			return That(slices.Equal(values(read(ctx, topic, 2, 0)), []string{value, value}), "others")
		}},
		{"headers", headers},
		{"nulls", nulls},
		roundTrip("idempotent", idempotence),
		{"transaction-commit", transactionCommit},
		{"transaction-abort", transactionAbort},
		{"transaction-offsets", transactionOffsets},
		{"earliest", func(ctx context.Context) error {
			topic := newTopic("earliest", 1)
			if err := send(nil, messages(topic, "1", "2")...); err != nil {
				return err
			}
			found := values(read(ctx, topic, 2, sarama.OffsetOldest))
			return That(slices.Equal(found, []string{"1", "2"}), found)
		}},
		{"latest", latest},
		{"timestamp", timestamp},
		{"seek", seek},
		{"auto-create", func(ctx context.Context) error {
			topic := Prefix + "-auto-create"
			if err := send(nil, message(topic, "v")); err != nil {
				return err
			}
			return That(values(read(ctx, topic, 1, 0))[0] == "v", "another one")
		}},
		{"group-resume", groupResume},
		{"group-rebalance", groupRebalance},
		{"static-member", staticMember},
	}, adminChecks()...))
}
