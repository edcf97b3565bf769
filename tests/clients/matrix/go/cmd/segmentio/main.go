// Command segmentio checks what segmentio/kafka-go can do with a broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	. "minibroker.test/matrix/checks"
)

// how is how records are written.
type how struct {
	acks, size int
	codec      string
	create     bool
}

const all = -1

func messages(values ...string) []kafka.Message {
	made := []kafka.Message{}
	for _, each := range values {
		made = append(made, kafka.Message{Value: []byte(each)})
	}
	return made
}

func reader(config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers = []string{Bootstrap}
	config.MaxWait = 200 * time.Millisecond
	config.StartOffset = kafka.FirstOffset
	config.HeartbeatInterval = 300 * time.Millisecond
	config.SessionTimeout = Session
	config.MaxBytes = 4 << 20
	config.JoinGroupBackoff = 200 * time.Millisecond
	return kafka.NewReader(config)
}

func read(ctx context.Context, topic string, count int, start int64) []kafka.Message {
	each := reader(kafka.ReaderConfig{Topic: topic})
	defer each.Close()
	if err := each.SetOffset(start); err != nil {
		panic(err)
	}
	return poll(ctx, each, count)
}

func poll(ctx context.Context, each *kafka.Reader, count int) []kafka.Message {
	found := []kafka.Message{}
	for len(found) < count {
		message, err := each.FetchMessage(ctx)
		if err != nil {
			panic(fmt.Sprintf("%d of %d records came: %v", len(found), count, err))
		}
		found = append(found, message)
	}
	return found
}

func values(all []kafka.Message) []string {
	found := []string{}
	for _, each := range all {
		found = append(found, string(each.Value))
	}
	return found
}

func roundTrip(name string, writes how) Check {
	return Check{name, func(ctx context.Context) error {
		topic := newTopic(ctx, name, 1)
		if err := send(ctx, writes, topic, messages(Values()...)...); err != nil {
			return err
		}
		found := values(read(ctx, topic, 20, 0))
		return That(slices.Equal(found, Values()), found)
	}}
}

func nulls(ctx context.Context) error {
	topic := newTopic(ctx, "nulls", 1)
	err := send(ctx, how{acks: all}, topic, kafka.Message{Key: []byte("k")}, kafka.Message{Value: []byte("v")})
	if err != nil {
		return err
	}
	found := read(ctx, topic, 2, 0)
	return That(len(found[0].Value) == 0 && len(found[1].Key) == 0 && string(found[0].Key) == "k", found)
}

func headers(ctx context.Context) error {
	topic := newTopic(ctx, "headers", 1)
	some := []kafka.Header{{Key: "a", Value: []byte{1}}, {Key: "a", Value: []byte{}}}
	if err := send(ctx, how{acks: all}, topic, kafka.Message{Value: []byte("v"), Headers: some}); err != nil {
		return err
	}
	found := read(ctx, topic, 1, 0)[0].Headers
	return That(fmt.Sprint(found) == fmt.Sprint(some), found)
}

func latest(ctx context.Context) error {
	topic := newTopic(ctx, "latest", 1)
	if err := send(ctx, how{acks: all}, topic, messages("1", "2")...); err != nil {
		return err
	}
	each := reader(kafka.ReaderConfig{Topic: topic})
	defer each.Close()
	if err := each.SetOffset(kafka.LastOffset); err != nil {
		return err
	}
	found := make(chan string, 1)
	go func() { found <- string(poll(ctx, each, 1)[0].Value) }()
	// Where the end is, is asked for in the background; so go on sending until something comes.
	for {
		if err := send(ctx, how{acks: all}, topic, messages("3")...); err != nil {
			return err
		}
		select {
		case value := <-found:
			return That(value == "3", value)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func groupResume(ctx context.Context) error {
	topic, group := newTopic(ctx, "group-resume", 1), Prefix+"-group-resume"
	if err := send(ctx, how{acks: all}, topic, messages("1", "2", "3")...); err != nil {
		return err
	}
	first := reader(kafka.ReaderConfig{GroupID: group, Topic: topic})
	found := poll(ctx, first, 1)
	if err := errors.Join(first.CommitMessages(ctx, found...), first.Close()); err != nil {
		return err
	}
	second := reader(kafka.ReaderConfig{GroupID: group, Topic: topic})
	defer second.Close()
	rest := values(poll(ctx, second, 2))
	return That(slices.Equal(rest, []string{"2", "3"}), rest)
}

// held takes generations of a group until one gives it so many partitions; it goes on taking part until it is closed.
func held(ctx context.Context, group *kafka.ConsumerGroup, topic string, wanted int, seen chan<- error) {
	for {
		generation, err := group.Next(ctx)
		if err != nil {
			return
		}
		if len(generation.Assignments[topic]) == wanted {
			seen <- nil
			return
		}
		generation.Start(func(ctx context.Context) { <-ctx.Done() })
	}
}

func groupRebalance(ctx context.Context) error {
	topic, name := newTopic(ctx, "group-rebalance", 4), Prefix+"-group-rebalance"
	open := func() *kafka.ConsumerGroup {
		made, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
			ID: name, Brokers: []string{Bootstrap}, Topics: []string{topic}, HeartbeatInterval: 300 * time.Millisecond,
			SessionTimeout: Session, JoinGroupBackoff: 200 * time.Millisecond,
		})
		if err != nil {
			panic(err)
		}
		return made
	}
	wait := func(seen chan error, times int) error {
		for range times {
			select {
			case <-seen:
			case <-ctx.Done():
				return errors.New("it did not happen in time")
			}
		}
		return nil
	}
	seen := make(chan error, 4)
	first := open()
	defer first.Close()
	go held(ctx, first, topic, 4, seen)
	if err := wait(seen, 1); err != nil {
		return err
	}
	second := open()
	go held(ctx, first, topic, 2, seen)
	go held(ctx, second, topic, 2, seen)
	if err := wait(seen, 2); err != nil {
		return err
	}
	go held(ctx, first, topic, 4, seen)
	if err := second.Close(); err != nil {
		return err
	}
	return wait(seen, 1)
}

func main() {
	Run(append([]Check{
		roundTrip("produce", how{acks: all}),
		roundTrip("acks-1", how{acks: 1}),
		roundTrip("gzip", how{acks: all, codec: "gzip"}),
		roundTrip("snappy", how{acks: all, codec: "snappy"}),
		roundTrip("lz4", how{acks: all, codec: "lz4"}),
		roundTrip("zstd", how{acks: all, codec: "zstd"}),
		{"big-records", func(ctx context.Context) error {
			topic, value := newTopic(ctx, "big-records", 1), strings.Repeat("x", 800_000)
			if err := send(ctx, how{acks: all, size: 1}, topic, messages(value, value)...); err != nil {
				return err
			}
			return That(slices.Equal(values(read(ctx, topic, 2, 0)), []string{value, value}), "others")
		}},
		{"headers", headers},
		{"nulls", nulls},
		{"earliest", func(ctx context.Context) error {
			topic := newTopic(ctx, "earliest", 1)
			if err := send(ctx, how{acks: all}, topic, messages("1", "2")...); err != nil {
				return err
			}
			found := values(read(ctx, topic, 2, kafka.FirstOffset))
			return That(slices.Equal(found, []string{"1", "2"}), found)
		}},
		{"latest", latest},
		{"timestamp", timestamp},
		{"seek", func(ctx context.Context) error {
			topic := newTopic(ctx, "seek", 1)
			if err := send(ctx, how{acks: all}, topic, messages("0", "1", "2", "3", "4")...); err != nil {
				return err
			}
			found := values(read(ctx, topic, 2, 3))
			return That(slices.Equal(found, []string{"3", "4"}), found)
		}},
		{"auto-create", func(ctx context.Context) error {
			topic := Prefix + "-auto-create"
			// Its first answer is that the topic is unknown, and it leaves it to the caller to try again.
			if err := Eventually(ctx, func() (bool, error) {
				return send(ctx, how{acks: all, create: true}, topic, messages("v")...) == nil, nil
			}); err != nil {
				return err
			}
			return That(values(read(ctx, topic, 1, 0))[0] == "v", "another one")
		}},
		{"group-resume", groupResume},
		{"group-rebalance", groupRebalance},
	}, adminChecks()...))
}
