// Command franz is the driver of franz-go.
package main

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	. "minibroker.test/matrix/waits"
)

type client struct {
	*kgo.Client
	request Request
	count   atomic.Int64
}

func (c *client) change(by int) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		for _, of := range partitions {
			c.count.Add(int64(by * len(of)))
		}
	}
}

func open(request Request) (Client, error) {
	made := &client{request: request}
	opened, err := kgo.NewClient(
		kgo.SeedBrokers(request.Bootstrap),
		kgo.ConsumerGroup(request.Group),
		kgo.ConsumeTopics(request.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(made.change(1)),
		kgo.OnPartitionsRevoked(made.change(-1)),
		kgo.OnPartitionsLost(made.change(-1)),
	)
	made.Client = opened
	return made, err
}

func (c *client) Poll(seen func()) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.request.Poll())
	defer cancel()
	if c.PollFetches(ctx).NumRecords() == 0 {
		return false, nil
	}
	seen()
	return true, c.CommitUncommittedOffsets(context.Background())
}

func (c *client) Count() int { return int(c.count.Load()) }

func (c *client) Close() error {
	c.Client.Close()
	return nil
}

func main() { Serve(open) }
