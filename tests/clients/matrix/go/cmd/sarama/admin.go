package main

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	. "minibroker.test/matrix/checks"
)

// with gives a check an admin client and the topic of its name.
func with(name string, run func(ctx context.Context, each sarama.ClusterAdmin, topic string) error) Check {
	return Check{name, func(ctx context.Context) error {
		topic := newTopic(name, 1)
		each := admin()
		defer each.Close()
		return run(ctx, each, topic)
	}}
}

// group is like with; a group of the same name as the topic has committed offset 1.
func group(name string, run func(ctx context.Context, each sarama.ClusterAdmin, topic string) error) Check {
	return with(name, func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
		client := must(sarama.NewClient(brokers, config()))
		defer client.Close()
		manager := must(sarama.NewOffsetManagerFromClient(topic, client))
		partition := must(manager.ManagePartition(topic, 0))
		partition.MarkOffset(1, "")
		manager.Commit()
		if err := errors.Join(partition.Close(), manager.Close()); err != nil {
			return err
		}
		return run(ctx, each, topic)
	})
}

func configIs(ctx context.Context, each sarama.ClusterAdmin, topic, wanted string) error {
	return Eventually(ctx, func() (bool, error) {
		found, err := each.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
		if err != nil {
			return false, err
		}
		for _, entry := range found {
			if entry.Name == "retention.ms" {
				return entry.Value == wanted, nil
			}
		}
		return false, errors.New("no retention.ms")
	})
}

func adminChecks() []Check {
	retention := "123456789"
	return append([]Check{
		with("list-topics", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			found, err := each.ListTopics()
			return errors.Join(err, That(found[topic].NumPartitions == 1, found[topic]))
		}),
		with("describe-topics", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			found, err := each.DescribeTopics([]string{topic})
			return errors.Join(err, That(len(found) == 1 && len(found[0].Partitions) == 1, found))
		}),
		with("describe-configs", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			found, err := each.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
			return errors.Join(err, Contains(found, "cleanup.policy"))
		}),
		with("alter-configs", func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
			err := each.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &retention}, false)
			if err != nil {
				return err
			}
			return configIs(ctx, each, topic, retention)
		}),
		with("incremental-configs", func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
			entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention}
			entries := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}
			err := each.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
			if err != nil {
				return err
			}
			return configIs(ctx, each, topic, retention)
		}),
		with("create-partitions", func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
			if err := each.CreatePartitions(topic, 3, nil, false); err != nil {
				return err
			}
			return Eventually(ctx, func() (bool, error) {
				found, err := each.ListTopics()
				return found[topic].NumPartitions == 3, err
			})
		}),
		with("delete-records", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			if err := send(nil, messages(topic, "1", "2", "3")...); err != nil {
				return err
			}
			if err := each.DeleteRecords(topic, map[int32]int64{0: 2}); err != nil {
				return err
			}
			client := must(sarama.NewClient(brokers, config()))
			defer client.Close()
			found, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
			return errors.Join(err, That(found == 2, found))
		}),
		{"acls", acls},
		{"quotas", quotas},
		{"scram", scram},
		with("log-dirs", func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
			nodes, _, err := each.DescribeCluster()
			if err != nil {
				return err
			}
			return Eventually(ctx, func() (bool, error) {
				found, err := each.DescribeLogDirs([]int32{nodes[0].ID()})
				return Contains(found, topic) == nil, err
			})
		}),
		with("reassignments", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			nodes, _, err := each.DescribeCluster()
			if err != nil {
				return err
			}
			if err := each.AlterPartitionReassignments(topic, [][]int32{{nodes[0].ID()}}); err != nil {
				return err
			}
			found, err := each.ListPartitionReassignments(topic, []int32{0})
			return errors.Join(err, That(len(found[topic]) == 0, found))
		}),
		{"cluster", func(context.Context) error {
			each := admin()
			defer each.Close()
			nodes, _, err := each.DescribeCluster()
			return errors.Join(err, That(len(nodes) > 0, nodes))
		}},
		with("delete-topic", func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
			if err := each.DeleteTopic(topic); err != nil {
				return err
			}
			return Eventually(ctx, func() (bool, error) {
				found, err := each.ListTopics()
				_, there := found[topic]
				return !there, err
			})
		}),
	}, groupChecks()...)
}

func groupChecks() []Check {
	return []Check{
		group("list-groups", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			found, err := each.ListConsumerGroups()
			return errors.Join(err, Contains(found, topic))
		}),
		group("describe-groups", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			found, err := each.DescribeConsumerGroups([]string{topic})
			return errors.Join(err, That(found[0].State == "Empty", found[0]))
		}),
		group("list-group-offsets", func(_ context.Context, _ sarama.ClusterAdmin, topic string) error {
			return offsetIs(topic, topic, 1)
		}),
		group("delete-group-offsets", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			return errors.Join(each.DeleteConsumerGroupOffset(topic, topic, 0), offsetIs(topic, topic, -1))
		}),
		with("remove-members", func(ctx context.Context, each sarama.ClusterAdmin, topic string) error {
			member, leave := join(ctx, topic, topic, static)
			err := member.wait(ctx, 1)
			leave()
			if err != nil {
				return err
			}
			if _, err := each.RemoveMemberFromConsumerGroup(topic, []string{"one"}); err != nil {
				return err
			}
			found, err := each.DescribeConsumerGroups([]string{topic})
			return errors.Join(err, That(len(found[0].Members) == 0, found[0]))
		}),
		group("delete-groups", func(_ context.Context, each sarama.ClusterAdmin, topic string) error {
			return each.DeleteConsumerGroup(topic)
		}),
	}
}

func acls(ctx context.Context) error {
	each := admin()
	defer each.Close()
	name, principal, host := Prefix+"-acls", "User:alice", "*"
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: name, ResourcePatternType: sarama.AclPatternLiteral}
	acl := sarama.Acl{Principal: principal, Host: host, Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	if err := each.CreateACL(resource, acl); err != nil {
		return err
	}
	filter := sarama.AclFilter{
		Version: 1, ResourceType: sarama.AclResourceTopic, ResourceName: &name, ResourcePatternTypeFilter: sarama.AclPatternLiteral,
		Principal: &principal, Host: &host, Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAny,
	}
	has := func(wanted int) error {
		return Eventually(ctx, func() (bool, error) {
			found, err := each.ListAcls(filter)
			return len(found) == wanted, err
		})
	}
	if err := has(1); err != nil {
		return err
	}
	deleted, err := each.DeleteACL(filter, false)
	return errors.Join(err, That(len(deleted) == 1, deleted), has(0))
}

func quotas(ctx context.Context) error {
	each := admin()
	defer each.Close()
	user := Prefix + "-quotas"
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: user}}
	op := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1_000_000}
	if err := each.AlterClientQuotas(entity, op, false); err != nil {
		return err
	}
	filter := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: user}}
	return Eventually(ctx, func() (bool, error) {
		found, err := each.DescribeClientQuotas(filter, true)
		return len(found) == 1 && found[0].Values["producer_byte_rate"] == 1_000_000, err
	})
}

func scram(ctx context.Context) error {
	each := admin()
	defer each.Close()
	user := Prefix + "-scram"
	upserted, err := each.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
		Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256, Iterations: 4096, Salt: []byte("salt"), Password: []byte("secret"),
	}})
	if err != nil || upserted[0].ErrorCode != sarama.ErrNoError {
		return errors.Join(err, upserted[0].ErrorCode)
	}
	if err := Eventually(ctx, func() (bool, error) {
		found, err := each.DescribeUserScramCredentials([]string{user})
		return err == nil && len(found[0].CredentialInfos) == 1 && found[0].CredentialInfos[0].Iterations == 4096, err
	}); err != nil {
		return err
	}
	deleted, err := each.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{
		{Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_256},
	})
	return errors.Join(err, That(deleted[0].ErrorCode == sarama.ErrNoError, deleted[0]))
}
