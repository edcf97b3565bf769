//go:build !older

package main

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	. "minibroker.test/matrix/checks"
)

func init() {
	Later = append(Later,
		with("elect-leaders", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			found, err := each.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}})
			return errors.Join(err, That(found[topic][0].ErrorCode == sarama.KError(84), found))
		}),
	)
}
