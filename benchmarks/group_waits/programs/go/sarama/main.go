// Command sarama is the driver of sarama's consumer groups, which call a handler and have no polls.
package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/IBM/sarama"

	. "minibroker.test/matrix/waits"
)

type client struct {
	group   sarama.ConsumerGroup
	request Request
	cancel  context.CancelFunc
	done    chan error
	seen    chan struct{}
	count   atomic.Int64
}

func open(request Request) (Client, error) {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	group, err := sarama.NewConsumerGroup([]string{request.Bootstrap}, request.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	made := &client{group: group, request: request, cancel: cancel, seen: make(chan struct{}, 10), done: make(chan error, 10)}
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, request.Topics, made); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				made.done <- err
				return
			}
		}
	}()
	return made, nil
}

func (c *client) Setup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		c.count.Add(int64(len(partitions)))
	}
	return nil
}

func (c *client) Cleanup(sarama.ConsumerGroupSession) error {
	c.count.Store(0)
	return nil
}

func (c *client) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		c.seen <- struct{}{}
		session.MarkMessage(message, "")
		session.Commit()
		c.done <- nil
	}
	return nil
}

func (c *client) Poll(seen func()) (bool, error) {
	select {
	case <-c.seen:
		seen()
		return true, <-c.done
	case err := <-c.done:
		return false, err
	}
}

func (c *client) Count() int { return int(c.count.Load()) }

// Close ends as sarama's own example of a consumer group does.
func (c *client) Close() error {
	c.cancel()
	return c.group.Close()
}

func main() { Serve(open) }
