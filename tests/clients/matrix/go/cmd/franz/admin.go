package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

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

var (
	retention = "123456789"
	alter     = []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}
)

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
		with("incremental-configs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.AlterTopicConfigs(ctx, alter, topic)
			if err != nil {
				return err
			}
			if found[0].Err != nil {
				return found[0].Err
			}
			return configIs(ctx, each, topic, retention)
		}),
		with("create-partitions", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.UpdatePartitions(ctx, 3, topic)
			if err != nil || found[topic].Err != nil {
				return errors.Join(err, found[topic].Err)
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
			deleted, err := each.DeleteRecords(ctx, offsets)
			if err != nil || deleted[topic][0].Err != nil {
				return errors.Join(err, deleted[topic][0].Err)
			}
			found, err := each.ListStartOffsets(ctx, topic)
			return errors.Join(err, That(found[topic][0].Offset == 2, found))
		}),
		{"acls", acls},
		with("log-dirs", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.DescribeAllLogDirs(ctx, partitionsOf(topic))
			return errors.Join(err, Contains(found, topic))
		}),
		{"cluster", func(ctx context.Context) error {
			each := admin()
			defer each.Close()
			found, err := each.BrokerMetadata(ctx)
			return errors.Join(err, That(found.Cluster != "" && len(found.Brokers) > 0, found))
		}},
		with("delete-topic", func(ctx context.Context, each *kadm.Client, topic string) error {
			found, err := each.DeleteTopics(ctx, topic)
			if err != nil || found[topic].Err != nil {
				return errors.Join(err, found[topic].Err)
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
			return errors.Join(err, found[topic][0], offsetIs(ctx, group, topic, -1))
		}),
		group("delete-groups", func(ctx context.Context, each *kadm.Client, _, group string) error {
			found, err := each.DeleteGroups(ctx, group)
			return errors.Join(err, found[group].Err)
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
