// Command member is a member of a consumer group through franz-go; group_members.py says what it reads and prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"minibroker.test/clients/lines"
)

type config struct {
	Bootstrap            string
	Group                string
	Topics               []string
	Strategy             string
	SessionTimeoutMs     int64   `json:"session_timeout_ms"`
	HeartbeatIntervalMs  int64   `json:"heartbeat_interval_ms"`
	InstanceID           *string `json:"instance_id"`
	AutoCommit           bool    `json:"auto_commit"`
	AutoCommitIntervalMs int64   `json:"auto_commit_interval_ms"`
	ClientID             string  `json:"client_id"`
	Rack                 *string
}

// assignment is what the member holds, changed by callbacks that franz-go calls one at a time.
type assignment struct {
	sync.Mutex
	held       map[string]map[int32]bool
	autoCommit bool
}

func (a *assignment) add(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	a.Lock()
	defer a.Unlock()
	for topic, partitions := range added {
		if a.held[topic] == nil {
			a.held[topic] = map[int32]bool{}
		}
		for _, partition := range partitions {
			a.held[topic][partition] = true
		}
	}
	all := map[string][]int32{}
	for topic, partitions := range a.held {
		for partition := range partitions {
			all[topic] = append(all[topic], partition)
		}
	}
	lines.Emit("assigned", lines.Fields{"partitions": pairs(all)})
}

func (a *assignment) remove(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, client *kgo.Client, removed map[string][]int32) {
		a.Lock()
		defer a.Unlock()
		// franz-go would do this by itself if it had not been given another callback.
		if a.autoCommit && event == "revoked" {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				lines.Emit("error", lines.Fields{"text": err.Error()})
			}
		}
		for topic, partitions := range removed {
			for _, partition := range partitions {
				delete(a.held[topic], partition)
			}
		}
		if gone := pairs(removed); len(gone) > 0 {
			lines.Emit(event, lines.Fields{"partitions": gone})
		}
	}
}

func pairs(partitions map[string][]int32) [][2]any {
	topics := make([]string, 0, len(partitions))
	for topic := range partitions {
		topics = append(topics, topic)
	}
	sort.Strings(topics)
	sorted := [][2]any{}
	for _, topic := range topics {
		of := append([]int32{}, partitions[topic]...)
		sort.Slice(of, func(i, j int) bool { return of[i] < of[j] })
		for _, partition := range of {
			sorted = append(sorted, [2]any{topic, partition})
		}
	}
	return sorted
}

func options(c config, a *assignment) []kgo.Opt {
	balancer := kgo.RangeBalancer()
	if c.Strategy == "cooperative" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap),
		kgo.ClientID(c.ClientID),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topics...),
		kgo.Balancers(balancer),
		kgo.SessionTimeout(time.Duration(c.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(c.HeartbeatIntervalMs) * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(), // what is polled is told before it is committed
		kgo.OnPartitionsAssigned(a.add),
		kgo.OnPartitionsRevoked(a.remove("revoked")),
		kgo.OnPartitionsLost(a.remove("lost")),
	}
	if c.Strategy == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	if c.InstanceID != nil {
		opts = append(opts, kgo.InstanceID(*c.InstanceID))
	}
	if c.Rack != nil {
		opts = append(opts, kgo.Rack(*c.Rack), kgo.BalanceRacks())
	}
	if c.AutoCommit {
		opts = append(opts, kgo.AutoCommitInterval(time.Duration(c.AutoCommitIntervalMs)*time.Millisecond))
	} else {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	return opts
}

func poll(client *kgo.Client) {
	for {
		fetches := client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			lines.Emit("error", lines.Fields{"text": fmt.Sprintf("%s-%d: %v", topic, partition, err)})
		})
		fetches.EachRecord(func(record *kgo.Record) {
			lines.Emit("record", lines.Fields{
				"topic":     record.Topic,
				"partition": record.Partition,
				"offset":    record.Offset,
				"value":     string(record.Value),
			})
		})
		client.AllowRebalance()
	}
}

// position is a JSON array: topic, partition, offset, metadata.
type position [4]any

func commit(client *kgo.Client, offsets []position) error {
	uncommitted := map[string]map[int32]kgo.EpochOffset{}
	metadata := map[string]map[int32]*string{}
	for _, each := range offsets {
		topic, partition := each[0].(string), int32(each[1].(float64))
		if uncommitted[topic] == nil {
			uncommitted[topic] = map[int32]kgo.EpochOffset{}
			metadata[topic] = map[int32]*string{}
		}
		uncommitted[topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: int64(each[2].(float64))}
		if text, ok := each[3].(string); ok {
			metadata[topic][partition] = &text
		}
	}
	// franz-go leaves metadata to a hook on its request.
	ctx := kgo.PreCommitFnContext(context.Background(), func(request *kmsg.OffsetCommitRequest) error {
		for i := range request.Topics {
			topic := &request.Topics[i]
			for j := range topic.Partitions {
				topic.Partitions[j].Metadata = metadata[topic.Topic][topic.Partitions[j].Partition]
			}
		}
		return nil
	})
	var failure error
	client.CommitOffsetsSync(ctx, uncommitted, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		failure = err
		if err != nil {
			return
		}
		for _, topic := range response.Topics {
			for _, partition := range topic.Partitions {
				failure = errors.Join(failure, kerr.ErrorForCode(partition.ErrorCode))
			}
		}
	})
	return failure
}

func committed(client *kgo.Client, group string, partitions [][2]any) []position {
	found, err := kadm.NewClient(client).FetchOffsets(context.Background(), group)
	if err != nil {
		lines.Fail(err)
	}
	offsets := []position{}
	for _, each := range partitions {
		topic, partition := each[0].(string), int32(each[1].(float64))
		offset, known := found.Lookup(topic, partition)
		if !known || offset.At < 0 {
			offsets = append(offsets, position{topic, partition, nil, nil})
		} else {
			offsets = append(offsets, position{topic, partition, offset.At, offset.Metadata})
		}
	}
	return offsets
}

func main() {
	var c config
	lines.Argument(&c)
	client, err := kgo.NewClient(options(c, &assignment{held: map[string]map[int32]bool{}, autoCommit: c.AutoCommit})...)
	if err != nil {
		lines.Fail(err)
	}
	lines.Emit("ready", nil)
	go poll(client)
	end := func() {
		client.CloseAllowingRebalance() // static members stay in the group
		lines.Emit("closed", nil)
		os.Exit(0)
	}
	lines.Commands(func(do string, text []byte) {
		switch do {
		case "commit":
			var command struct{ Offsets []position }
			lines.Decode(text, &command)
			lines.Emit("committed", lines.Fields{"error": lines.Text(commit(client, command.Offsets))})
		case "offsets":
			var command struct{ Partitions [][2]any }
			lines.Decode(text, &command)
			lines.Emit("offsets", lines.Fields{"offsets": committed(client, c.Group, command.Partitions)})
		case "close":
			end()
		default:
			lines.Fail(fmt.Errorf("no such command: %s", do))
		}
	})
	end()
}
