// Command segmentio is the driver of the readers of segmentio/kafka-go. They do not tell what they are assigned, so
// the group is asked for it.
package main

import (
	"context"

	"github.com/segmentio/kafka-go"

	. "minibroker.test/matrix/waits"
)

type client struct {
	*kafka.Reader
	request Request
}

func open(request Request) (Client, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{request.Bootstrap},
		GroupID:     request.Group,
		GroupTopics: request.Topics,
		StartOffset: kafka.FirstOffset,
	})
	return &client{Reader: reader, request: request}, nil
}

func (c *client) Poll(seen func()) (bool, error) {
	message, err := c.FetchMessage(context.Background())
	if err != nil {
		return false, err
	}
	seen()
	return true, c.CommitMessages(context.Background(), message)
}

// Count is not used: IsStable is there.
func (c *client) Count() int { return 0 }

// IsStable says whether the group is stable, and has this number of members.
func (c *client) IsStable(members int) bool {
	broker := kafka.Client{Addr: kafka.TCP(c.request.Bootstrap)}
	request := &kafka.DescribeGroupsRequest{GroupIDs: []string{c.request.Group}}
	response, err := broker.DescribeGroups(context.Background(), request)
	return err == nil && len(response.Groups) == 1 &&
		response.Groups[0].GroupState == "Stable" && len(response.Groups[0].Members) == members
}

func main() { Serve(open) }
