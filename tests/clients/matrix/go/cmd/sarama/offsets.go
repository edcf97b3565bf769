//go:build !old

package main

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	. "minibroker.test/matrix/checks"
)

func init() {
	Later = append(Later,
		group("alter-group-offsets", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: 2, LeaderEpoch: -1}}}
			_, err := each.AlterConsumerGroupOffsets(topic, offsets, nil)
			return errors.Join(err, offsetIs(topic, topic, 2))
		}),
	)
	blockOf = func(found *sarama.OffsetFetchResponse, group, topic string) *sarama.OffsetFetchResponseBlock {
		if block := found.GetBlock(topic, 0); block != nil {
			return block
		}
		return found.GetGroupBlock(group, topic, 0)
	}
}
