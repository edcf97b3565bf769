//go:build !old

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	. "minibroker.test/matrix/checks"
)

func init() {
	Later = append(Later,
		Check{"max-timestamp", func(ctx context.Context) error {
			now := time.Now().UnixMilli()
			topic, err := timestamps(ctx, "max-timestamp", now-3000, now-1000, now-2000)
			if err != nil {
				return err
			}
			each := admin()
			defer each.Close()
			found, err := each.ListMaxTimestampOffsets(ctx, topic)
			if err != nil {
				return err
			}
			return That(found[topic][0].Err == nil && found[topic][0].Offset == 1, found)
		}},
		with("alter-configs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.AlterTopicConfigsState(ctx, alter, topic)
			if err != nil {
				return err
			}
			if found[0].Err != nil {
				return found[0].Err
			}
			return configIs(ctx, each, topic, retention)
		}),
		with("reassignments", func(ctx context.Context, each *kadm.Client, topic string) error {
			brokers, err := each.ListBrokers(ctx)
			if err != nil {
				return err
			}
			request := kadm.AlterPartitionAssignmentsReq{}
			request.Assign(topic, 0, []int32{brokers[0].NodeID})
			found, err := each.AlterPartitionAssignments(ctx, request)
			if err != nil || found.Error() != nil {
				return errors.Join(err, found.Error())
			}
			listed, err := each.ListPartitionReassignments(ctx, partitionsOf(topic))
			return errors.Join(err, That(len(listed) == 0, listed))
		}),
		with("elect-leaders", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.ElectLeaders(ctx, kadm.ElectPreferredReplica, partitionsOf(topic))
			return errors.Join(err, That(errors.Is(found[topic][0].Err, kerr.ElectionNotNeeded), found))
		}),
		with("producers", func(ctx context.Context, each *kadm.Client, topic string) error {
			if err := send(ctx, topic, nil, "v"); err != nil {
				return err
			}
			found, err := each.DescribeProducers(ctx, partitionsOf(topic))
			return errors.Join(err, Contains(found, "ProducerID"))
		}),
		Check{"delegation-tokens", func(ctx context.Context) error {
			each := admin()
			defer each.Close()
			_, err := each.CreateDelegationToken(ctx, kadm.CreateDelegationToken{})
			return That(errors.Is(err, kerr.DelegationTokenRequestNotAllowed) || errors.Is(err, kerr.DelegationTokenAuthDisabled), err)
		}},
		Check{"config-resources", func(ctx context.Context) error {
			each := admin()
			defer each.Close()
			_, err := each.ListConfigResources(ctx, kadm.ConfigResourceType(16))
			return err
		}},
		Check{"remove-members", func(ctx context.Context) error {
			topic, group := newTopic(ctx, "remove-members", 1), Prefix+"-remove-members"
			if err := send(ctx, topic, nil, "v"); err != nil {
				return err
			}
			client := member(group, topic, kgo.InstanceID("one"))
			poll(ctx, client, 1)
			client.Close()
			each := admin()
			defer each.Close()
			left, err := each.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("one"))
			if err != nil || left.Error() != nil {
				return errors.Join(err, left.Error())
			}
			found, err := each.DescribeGroups(ctx, group)
			return errors.Join(err, That(len(found[group].Members) == 0, found))
		}},
		Check{"quotas", quotas},
		Check{"scram", scram},
		with("transactions", transactions),
		Check{"consumer-protocol", consumerProtocol},
	)
}

func consumerProtocol(ctx context.Context) error {
	// Without the API the client takes the older protocol, and says nothing.
	each := admin()
	defer each.Close()
	found, err := each.ApiVersions(ctx)
	if err != nil {
		return err
	}
	for _, broker := range found {
		if maximum, there := broker.KeyMaxVersion(68); !there || maximum < 1 {
			return errors.New("the broker has no ConsumerGroupHeartbeat of version 1")
		}
	}
	return rebalance("consumer-protocol", kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()).Run(ctx)
}

func quotas(ctx context.Context) error {
	each := admin()
	defer each.Close()
	user := Prefix + "-quotas"
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &user}}
	altered, err := each.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
		Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1_000_000}},
	}})
	if err != nil || len(altered) != 1 || altered[0].Err != nil {
		return errors.Join(err, fmt.Errorf("%+v", altered))
	}
	return Eventually(ctx, func() (bool, error) {
		found, err := each.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &user}})
		return len(found) == 1 && found[0].Values[0].Value == 1_000_000, err
	})
}

func scram(ctx context.Context) error {
	each := admin()
	defer each.Close()
	user := Prefix + "-scram"
	altered, err := each.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
		{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"},
	})
	if err != nil || altered.Error() != nil {
		return errors.Join(err, altered.Error())
	}
	if err := Eventually(ctx, func() (bool, error) {
		found, err := each.DescribeUserSCRAMs(ctx, user)
		return len(found[user].CredInfos) == 1 && found[user].CredInfos[0].Iterations == 4096, err
	}); err != nil {
		return err
	}
	deleted, err := each.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}, nil)
	return errors.Join(err, deleted.Error())
}

func transactions(ctx context.Context, each *kadm.Client, topic string) error {
	client := transactional("transactions")
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
		return err
	}
	id := Prefix + "-transactions"
	listed, err := each.ListTransactions(ctx, nil, nil)
	if err != nil {
		return err
	}
	described, err := each.DescribeTransactions(ctx, id)
	if err != nil {
		return err
	}
	return errors.Join(
		Contains(listed, id), That(described[id].State == "Ongoing", described), Contains(described[id].Topics, topic),
		client.EndTransaction(ctx, kgo.TryCommit))
}
