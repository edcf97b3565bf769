//go:build old

package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/gzip"
	"github.com/segmentio/kafka-go/lz4"
	"github.com/segmentio/kafka-go/snappy"
	"github.com/segmentio/kafka-go/zstd"

	. "minibroker.test/matrix/checks"
)

// ask calls it with a connection to the broker.
func ask(ctx context.Context, run func(conn *kafka.Conn) error) error {
	conn, err := kafka.DialContext(ctx, "tcp", Bootstrap)
	if err != nil {
		return err
	}
	defer conn.Close()
	return run(conn)
}

func create(ctx context.Context, topic string, partitions int) error {
	return ask(ctx, func(conn *kafka.Conn) error {
		return conn.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1})
	})
}

func newTopic(ctx context.Context, name string, partitions int) string {
	topic := Prefix + "-" + name
	if err := create(ctx, topic, partitions); err != nil {
		panic(err)
	}
	return topic
}

var codecs = map[string]kafka.CompressionCodec{
	"gzip": gzip.NewCompressionCodec(), "snappy": snappy.NewCompressionCodec(),
	"lz4": lz4.NewCompressionCodec(), "zstd": zstd.NewCompressionCodec(),
}

// send writes with what this version creates topics by in any case: it asks for their metadata as old brokers were asked.
func send(ctx context.Context, writes how, topic string, messages ...kafka.Message) error {
	writer := kafka.NewWriter(kafka.WriterConfig{
		Brokers: []string{Bootstrap}, Topic: topic, RequiredAcks: writes.acks, BatchTimeout: time.Millisecond,
		MaxAttempts: 20, BatchBytes: 4 << 20, BatchSize: max(writes.size, 1), CompressionCodec: codecs[writes.codec],
	})
	defer writer.Close()
	return writer.WriteMessages(ctx, messages...)
}

func timestamp(ctx context.Context) error {
	topic := newTopic(ctx, "timestamp", 1)
	now := time.Now()
	for _, age := range []time.Duration{3, 2, 1} {
		if err := send(ctx, how{acks: all}, topic, kafka.Message{Value: []byte("v"), Time: now.Add(-age * time.Hour)}); err != nil {
			return err
		}
	}
	conn, err := kafka.DialLeader(ctx, "tcp", Bootstrap, topic, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := conn.ReadOffset(now.Add(-150 * time.Minute))
	first, last, failure := conn.ReadOffsets()
	return errors.Join(err, failure, That(found == 1 && first == 0 && last == 3, found, first, last))
}

// partitions counts those of a topic.
func partitions(ctx context.Context, topic string) (int, error) {
	count := 0
	err := ask(ctx, func(conn *kafka.Conn) error {
		found, err := conn.ReadPartitions()
		for _, each := range found {
			if each.Topic == topic {
				count++
			}
		}
		return err
	})
	return count, err
}

func adminChecks() []Check {
	return []Check{
		{"create-topic", func(ctx context.Context) error {
			topic := newTopic(ctx, "create-topic", 3)
			// It takes it for granted that what is there already is what was meant.
			found, err := partitions(ctx, topic)
			return errors.Join(err, create(ctx, topic, 3), That(found == 3, found))
		}},
		{"list-topics", func(ctx context.Context) error {
			found, err := partitions(ctx, newTopic(ctx, "list-topics", 1))
			return errors.Join(err, That(found == 1, found))
		}},
		{"describe-topics", func(ctx context.Context) error {
			topic := newTopic(ctx, "describe-topics", 1)
			return ask(ctx, func(conn *kafka.Conn) error {
				found, err := conn.ReadPartitions(topic)
				return errors.Join(err, That(len(found) == 1 && found[0].Topic == topic && found[0].Leader.Port > 0, found))
			})
		}},
		{"list-group-offsets", func(ctx context.Context) error {
			topic := newTopic(ctx, "list-group-offsets", 1)
			if err := send(ctx, how{acks: all}, topic, messages("1")...); err != nil {
				return err
			}
			each := reader(kafka.ReaderConfig{GroupID: topic, Topic: topic})
			defer each.Close()
			if err := each.CommitMessages(ctx, poll(ctx, each, 1)...); err != nil {
				return err
			}
			found, err := kafka.NewClient(Bootstrap).ConsumerOffsets(ctx, kafka.TopicAndGroup{Topic: topic, GroupId: topic})
			return errors.Join(err, That(found[0] == 1, found))
		}},
		{"cluster", func(ctx context.Context) error {
			return ask(ctx, func(conn *kafka.Conn) error {
				brokers, err := conn.Brokers()
				controller, failure := conn.Controller()
				return errors.Join(err, failure, That(len(brokers) > 0 && controller.Port > 0, brokers, controller))
			})
		}},
		{"delete-topic", func(ctx context.Context) error {
			topic := newTopic(ctx, "delete-topic", 1)
			if err := ask(ctx, func(conn *kafka.Conn) error { return conn.DeleteTopics(topic) }); err != nil {
				return err
			}
			return Eventually(ctx, func() (bool, error) {
				found, err := partitions(ctx, topic)
				return found == 0, err
			})
		}},
	}
}
