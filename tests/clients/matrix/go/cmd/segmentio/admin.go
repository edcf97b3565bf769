//go:build !old

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	. "minibroker.test/matrix/checks"
)

var client = &kafka.Client{Addr: kafka.TCP(Bootstrap), Timeout: Limit}

func newTopic(ctx context.Context, name string, partitions int) string {
	topic := Prefix + "-" + name
	found, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err != nil || found.Errors[topic] != nil {
		panic(fmt.Sprint(err, found))
	}
	return topic
}

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func send(ctx context.Context, writes how, topic string, messages ...kafka.Message) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(Bootstrap), Topic: topic, RequiredAcks: kafka.RequiredAcks(writes.acks), BatchTimeout: time.Millisecond,
		MaxAttempts: 20, BatchBytes: 4 << 20, BatchSize: writes.size, Compression: codecs[writes.codec],
		AllowAutoTopicCreation: writes.create,
	}
	defer writer.Close()
	return writer.WriteMessages(ctx, messages...)
}

func timestamp(ctx context.Context) error {
	topic := newTopic(ctx, "timestamp", 1)
	now := time.Now()
	for _, age := range []time.Duration{3, 2, 1} {
		if err := send(ctx, how{acks: all}, topic, kafka.Message{Value: []byte("v"), Time: now.Add(-age * time.Hour)}); err != nil {
			return err
		}
	}
	found, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {kafka.TimeOffsetOf(0, now.Add(-150*time.Minute)), kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}},
	})
	if err != nil {
		return err
	}
	each := found.Topics[topic][0]
	_, there := each.Offsets[1]
	return That(there && each.FirstOffset == 0 && each.LastOffset == 3, found)
}

// with gives a check the topic of its name.
func with(name string, run func(ctx context.Context, topic string) error) Check {
	return Check{name, func(ctx context.Context) error { return run(ctx, newTopic(ctx, name, 1)) }}
}

// group is like with; a group of the same name as the topic has committed offset 1.
func group(name string, run func(ctx context.Context, topic string) error) Check {
	return with(name, func(ctx context.Context, topic string) error {
		return errors.Join(commit(ctx, topic, 1), run(ctx, topic))
	})
}

func commit(ctx context.Context, topic string, offset int64) error {
	// The coordinator may still be loading on a broker that has just made its topic.
	return Eventually(ctx, func() (bool, error) {
		found, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
			GroupID: topic, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: offset}}},
		})
		return err == nil && found.Topics[topic][0].Error == nil, err
	})
}

func offsetIs(ctx context.Context, topic string, wanted int64) error {
	found, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: topic, Topics: map[string][]int{topic: {0}}})
	return errors.Join(err, That(found.Topics[topic][0].CommittedOffset == wanted, found))
}

func configIs(ctx context.Context, topic, wanted string) error {
	return Eventually(ctx, func() (bool, error) {
		found, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}},
		})
		if err != nil {
			return false, err
		}
		for _, entry := range found.Resources[0].ConfigEntries {
			if entry.ConfigName == "retention.ms" {
				return wanted == "" || entry.ConfigValue == wanted, nil
			}
		}
		return false, errors.New("no retention.ms")
	})
}

func adminChecks() []Check {
	return []Check{
		{"create-topic", func(ctx context.Context) error {
			topic := newTopic(ctx, "create-topic", 3)
			found, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
				Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 1}},
			})
			return errors.Join(err, That(errors.Is(found.Errors[topic], kafka.TopicAlreadyExists), found))
		}},
		roundTrip("acks-0", how{}),
		with("list-topics", func(ctx context.Context, topic string) error {
			found, err := client.Metadata(ctx, &kafka.MetadataRequest{})
			return errors.Join(err, Contains(found.Topics, topic))
		}),
		with("describe-topics", func(ctx context.Context, topic string) error {
			found, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
			return errors.Join(err, That(len(found.Topics) == 1 && len(found.Topics[0].Partitions) == 1, found))
		}),
		with("describe-configs", func(ctx context.Context, topic string) error { return configIs(ctx, topic, "") }),
		with("alter-configs", func(ctx context.Context, topic string) error {
			found, err := client.AlterConfigs(ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
				Configs: []kafka.AlterConfigRequestConfig{{Name: "retention.ms", Value: "123456789"}},
			}}})
			if err != nil {
				return err
			}
			for _, each := range found.Errors {
				if each != nil {
					return each
				}
			}
			return configIs(ctx, topic, "123456789")
		}),
		with("incremental-configs", func(ctx context.Context, topic string) error {
			found, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
				Resources: []kafka.IncrementalAlterConfigsRequestResource{{
					ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
					Configs: []kafka.IncrementalAlterConfigsRequestConfig{
						{Name: "retention.ms", Value: "123456789", ConfigOperation: kafka.ConfigOperationSet},
					},
				}},
			})
			if err != nil || found.Resources[0].Error != nil {
				return errors.Join(err, fmt.Errorf("%+v", found))
			}
			return configIs(ctx, topic, "123456789")
		}),
		with("create-partitions", func(ctx context.Context, topic string) error {
			found, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
				Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 3}},
			})
			if err != nil || found.Errors[topic] != nil {
				return errors.Join(err, fmt.Errorf("%+v", found))
			}
			return Eventually(ctx, func() (bool, error) {
				now, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
				return err == nil && len(now.Topics[0].Partitions) == 3, err
			})
		}),
		group("list-groups", func(ctx context.Context, topic string) error {
			found, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
			return errors.Join(err, Contains(found.Groups, topic))
		}),
		group("describe-groups", func(ctx context.Context, topic string) error {
			found, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{topic}})
			return errors.Join(err, That(found.Groups[0].GroupState == "Empty", found))
		}),
		group("list-group-offsets", func(ctx context.Context, topic string) error { return offsetIs(ctx, topic, 1) }),
		group("alter-group-offsets", func(ctx context.Context, topic string) error {
			return errors.Join(commit(ctx, topic, 2), offsetIs(ctx, topic, 2))
		}),
		group("delete-group-offsets", func(ctx context.Context, topic string) error {
			found, err := client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{
				GroupID: topic, Topics: map[string][]int{topic: {0}},
			})
			if err != nil || found.Error != nil {
				return errors.Join(err, fmt.Errorf("%+v", found))
			}
			return offsetIs(ctx, topic, -1)
		}),
		group("delete-groups", func(ctx context.Context, topic string) error {
			found, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{topic}})
			return errors.Join(err, found.Errors[topic])
		}),
		{"acls", acls},
		{"quotas", quotas},
		{"scram", scram},
		with("reassignments", func(ctx context.Context, topic string) error {
			about, err := client.Metadata(ctx, &kafka.MetadataRequest{})
			if err != nil {
				return err
			}
			found, err := client.AlterPartitionReassignments(ctx, &kafka.AlterPartitionReassignmentsRequest{
				Topic: topic, Timeout: 10 * time.Second, Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{
					{PartitionID: 0, BrokerIDs: []int{about.Brokers[0].ID}},
				},
			})
			if err != nil || found.Error != nil {
				return errors.Join(err, fmt.Errorf("%+v", found))
			}
			listed, err := client.ListPartitionReassignments(ctx, &kafka.ListPartitionReassignmentsRequest{Timeout: 10 * time.Second})
			return errors.Join(err, That(len(listed.Topics[topic].Partitions) == 0, listed))
		}),
		with("elect-leaders", func(ctx context.Context, topic string) error {
			found, err := client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{
				Topic: topic, Partitions: []int{0}, Timeout: 10 * time.Second,
			})
			return errors.Join(err, That(errors.Is(found.PartitionResults[0].Error, kafka.Error(84)), fmt.Sprintf("%+v", *found)))
		}),
		{"cluster", func(ctx context.Context) error {
			found, err := client.Metadata(ctx, &kafka.MetadataRequest{})
			return errors.Join(err, That(found.ClusterID != "" && len(found.Brokers) > 0, found))
		}},
		with("delete-topic", func(ctx context.Context, topic string) error {
			found, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
			if err != nil || found.Errors[topic] != nil {
				return errors.Join(err, fmt.Errorf("%+v", found))
			}
			return Eventually(ctx, func() (bool, error) {
				now, err := client.Metadata(ctx, &kafka.MetadataRequest{})
				return err == nil && Contains(now.Topics, topic) != nil, err
			})
		}),
	}
}

func acls(ctx context.Context) error {
	name := Prefix + "-acls"
	created, err := client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: name, ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: "User:alice", Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
	}}})
	if err != nil || created.Errors[0] != nil {
		return errors.Join(err, fmt.Errorf("%+v", created))
	}
	filter := kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeTopic, ResourceNameFilter: name, ResourcePatternTypeFilter: kafka.PatternTypeLiteral,
		PrincipalFilter: "User:alice", HostFilter: "*", Operation: kafka.ACLOperationTypeRead,
		PermissionType: kafka.ACLPermissionTypeAllow,
	}
	if err := Eventually(ctx, func() (bool, error) {
		found, err := client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: filter})
		return err == nil && len(found.Resources) == 1, err
	}); err != nil {
		return err
	}
	deleted, err := client.DeleteACLs(ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{kafka.DeleteACLsFilter(filter)}})
	return errors.Join(err, That(len(deleted.Results[0].MatchingACLs) == 1, deleted))
}

func quotas(ctx context.Context) error {
	user := Prefix + "-quotas"
	altered, err := client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{{
		Entities: []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: user}},
		Ops:      []kafka.AlterClientQuotaOps{{Key: "producer_byte_rate", Value: 1_000_000}},
	}}})
	if err != nil || altered.Entries[0].Error != nil {
		return errors.Join(err, fmt.Errorf("%+v", altered))
	}
	return Eventually(ctx, func() (bool, error) {
		found, err := client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: 0, Match: user}},
		})
		return err == nil && len(found.Entries) == 1, err
	})
}

func scram(ctx context.Context) error {
	user := Prefix + "-scram"
	altered, err := client.AlterUserScramCredentials(ctx, &kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: user, Mechanism: kafka.ScramMechanismSha512, Iterations: 15000, Salt: []byte("my-salt"), SaltedPassword: []byte("my-salted-password"),
		}},
	})
	if err != nil || altered.Results[0].Error != nil {
		return errors.Join(err, fmt.Errorf("%+v", altered))
	}
	return Eventually(ctx, func() (bool, error) {
		found, err := client.DescribeUserScramCredentials(ctx, &kafka.DescribeUserScramCredentialsRequest{
			Users: []kafka.UserScramCredentialsUser{{Name: user}},
		})
		return err == nil && len(found.Results[0].CredentialInfos) == 1, err
	})
}
