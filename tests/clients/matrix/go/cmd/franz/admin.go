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

// with gives a check an admin client and the topic of its name.
func with(name string, run func(ctx context.Context, each *kadm.Client, topic string) error) Check {
	return Check{name, func(ctx context.Context) error {
		each := admin()
		defer each.Close()
		return run(ctx, each, newTopic(ctx, name, 1))
	}}
}

// group is like with; its check gets a group of the same name, too, which has committed offset 1.
func group(name string, run func(ctx context.Context, each *kadm.Client, topic, group string) error) Check {
	return with(name, func(ctx context.Context, each *kadm.Client, topic string) error {
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, 1, -1)
		if err := each.CommitAllOffsets(ctx, topic, offsets); err != nil {
			return err
		}
		return run(ctx, each, topic, topic)
	})
}

func partitionsOf(topic string) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add(topic, 0)
	return set
}

func configIs(ctx context.Context, each *kadm.Client, topic, wanted string) error {
	return Eventually(ctx, func() (bool, error) {
		found, err := each.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return false, err
		}
		config, err := found.On(topic, nil)
		if err != nil || config.Err != nil {
			return false, errors.Join(err, config.Err)
		}
		for _, entry := range config.Configs {
			if entry.Key == "retention.ms" {
				return *entry.Value == wanted, nil
			}
		}
		return false, errors.New("no retention.ms")
	})
}

func adminChecks() []Check {
	retention := "123456789"
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}
	return append([]Check{
		{"timestamp", func(ctx context.Context) error {
			now := time.Now().UnixMilli()
			topic, err := timestamps(ctx, "timestamp", now-3000, now-2000, now-1000)
			if err != nil {
				return err
			}
			each := admin()
			defer each.Close()
			found, err := each.ListOffsetsAfterMilli(ctx, now-2999, topic)
			if err != nil {
				return err
			}
			return That(found[topic][0].Offset == 1, found)
		}},
		{"max-timestamp", func(ctx context.Context) error {
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
		with("list-topics", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.ListTopics(ctx)
			return errors.Join(err, That(found.Has(topic), found))
		}),
		with("describe-topics", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.ListTopics(ctx, topic)
			return errors.Join(err, That(len(found[topic].Partitions) == 1 && found[topic].ID != kadm.TopicID{}, found))
		}),
		with("describe-configs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.DescribeTopicConfigs(ctx, topic)
			return errors.Join(err, Contains(found, "cleanup.policy"))
		}),
		with("alter-configs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.AlterTopicConfigsState(ctx, alter, topic)
			if err != nil {
				return err
			}
			return errors.Join(found[0].Err, configIs(ctx, each, topic, retention))
		}),
		with("incremental-configs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.AlterTopicConfigs(ctx, alter, topic)
			if err != nil {
				return err
			}
			return errors.Join(found[0].Err, configIs(ctx, each, topic, retention))
		}),
		with("create-partitions", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.UpdatePartitions(ctx, 3, topic)
			if err != nil || found.Error() != nil {
				return errors.Join(err, found.Error())
			}
			return Eventually(ctx, func() (bool, error) {
				topics, err := each.ListTopics(ctx, topic)
				return len(topics[topic].Partitions) == 3, err
			})
		}),
		with("delete-records", func(ctx context.Context, each *kadm.Client, topic string) error {
			if err := send(ctx, topic, nil, "1", "2", "3"); err != nil {
				return err
			}
			offsets := kadm.Offsets{}
			offsets.AddOffset(topic, 0, 2, -1)
			found, err := each.DeleteRecords(ctx, offsets)
			return errors.Join(err, found.Error(), That(found[topic][0].LowWatermark == 2, found))
		}),
		{"acls", acls},
		{"quotas", quotas},
		{"scram", scram},
		with("log-dirs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.DescribeAllLogDirs(ctx, partitionsOf(topic))
			return errors.Join(err, Contains(found, topic))
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
		{"cluster", func(ctx context.Context) error {
			each := admin()
			defer each.Close()
			found, err := each.BrokerMetadata(ctx)
			return errors.Join(err, That(found.Cluster != "" && len(found.Brokers) > 0, found))
		}},
		with("producers", func(ctx context.Context, each *kadm.Client, topic string) error {
			if err := send(ctx, topic, nil, "v"); err != nil {
				return err
			}
			found, err := each.DescribeProducers(ctx, partitionsOf(topic))
			return errors.Join(err, Contains(found, "ProducerID"))
		}),
		with("transactions", transactions),
		{"delegation-tokens", func(ctx context.Context) error {
			each := admin()
			defer each.Close()
			_, err := each.CreateDelegationToken(ctx, kadm.CreateDelegationToken{})
			return That(errors.Is(err, kerr.DelegationTokenRequestNotAllowed) || errors.Is(err, kerr.DelegationTokenAuthDisabled), err)
		}},
		{"config-resources", func(ctx context.Context) error {
			each := admin()
			defer each.Close()
			_, err := each.ListConfigResources(ctx, kadm.ConfigResourceType(16))
			return err
		}},
		with("delete-topic", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.DeleteTopic(ctx, topic)
			if err != nil || found.Err != nil {
				return errors.Join(err, found.Err)
			}
			return Eventually(ctx, func() (bool, error) {
				topics, err := each.ListTopics(ctx)
				return !topics.Has(topic), err
			})
		}),
	}, groupChecks()...)
}

func groupChecks() []Check {
	return []Check{
		group("list-groups", func(ctx context.Context, each *kadm.Client, _, group string) error {
			found, err := each.ListGroups(ctx)
			return errors.Join(err, Contains(found.Groups(), group))
		}),
		group("describe-groups", func(ctx context.Context, each *kadm.Client, _, group string) error {
			found, err := each.DescribeGroups(ctx, group)
			return errors.Join(err, That(found[group].State == "Empty", found))
		}),
		group("list-group-offsets", func(ctx context.Context, _ *kadm.Client, topic, group string) error {
			return offsetIs(ctx, group, topic, 1)
		}),
		group("alter-group-offsets", func(ctx context.Context, each *kadm.Client, topic, group string) error {
			offsets := kadm.Offsets{}
			offsets.AddOffset(topic, 0, 2, -1)
			return errors.Join(each.CommitAllOffsets(ctx, group, offsets), offsetIs(ctx, group, topic, 2))
		}),
		group("delete-group-offsets", func(ctx context.Context, each *kadm.Client, topic, group string) error {
			found, err := each.DeleteOffsets(ctx, group, partitionsOf(topic))
			return errors.Join(err, found.Error(), offsetIs(ctx, group, topic, -1))
		}),
		{"remove-members", func(ctx context.Context) error {
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
		group("delete-groups", func(ctx context.Context, each *kadm.Client, _, group string) error {
			found, err := each.DeleteGroup(ctx, group)
			return errors.Join(err, found.Err)
		}),
	}
}

func acls(ctx context.Context) error {
	each := admin()
	defer each.Close()
	built := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(Prefix + "-acls").Allow("User:alice").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	}
	if created, err := each.CreateACLs(ctx, built()); err != nil || created[0].Err != nil {
		return errors.Join(err, created[0].Err)
	}
	has := func(wanted bool) error {
		return Eventually(ctx, func() (bool, error) {
			found, err := each.DescribeACLs(ctx, built())
			if err != nil {
				return false, err
			}
			for _, one := range found {
				if one.Err != nil {
					return false, one.Err
				}
			}
			return (Contains(fmt.Sprintf("%+v", found[0].Described), "alice") == nil) == wanted, nil
		})
	}
	if err := has(true); err != nil {
		return err
	}
	if _, err := each.DeleteACLs(ctx, built()); err != nil {
		return err
	}
	return has(false)
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
