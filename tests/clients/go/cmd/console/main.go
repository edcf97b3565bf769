// Command console asks what Redpanda Console asks on its pages, with the same client, and prints an event for each
// answer. What differs from broker to broker is left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"minibroker.test/clients/lines"
)

const (
	records   = 10
	firstTime = 1_600_000_000_000
)

type config struct {
	Bootstrap string
	Topic     string
	Group     string
}

type console struct {
	config
	ctx    context.Context
	client *kgo.Client
	admin  *kadm.Client
}

func main() {
	var given config
	lines.Argument(&given)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(given.Bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Second),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		lines.Fail(err)
	}
	defer client.Close()
	c := console{given, ctx, client, kadm.NewClient(client)}
	c.overview()
	c.fill()
	c.topic()
	c.groups()
	c.security()
	c.edit()
	c.tell("delete", nil, ignore(c.admin.DeleteTopics(ctx, given.Topic)))
}

// tell prints an answer, or the name of the error that came in its place.
func (c console) tell(step string, answer any, err error) {
	var coded *kerr.Error
	var refused *kadm.AuthError
	switch {
	case errors.As(err, &coded):
		answer = coded.Message
	case errors.As(err, &refused):
		answer = refused.Err.Error()
	case err != nil:
		answer = err.Error()
	}
	lines.Emit(step, lines.Fields{"answer": answer})
}

func ignore[T any](_ T, err error) error { return err }

func (c console) overview() {
	brokers, err := c.admin.BrokerMetadata(c.ctx)
	c.tell("brokers", []any{len(brokers.Brokers), len(brokers.Cluster), brokers.Controller == 1}, err)
	cluster, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(c.ctx, c.client)
	if err == nil {
		c.tell("cluster", []any{cluster.ErrorCode, len(cluster.Brokers), len(cluster.ClusterID)}, nil)
	} else {
		c.tell("cluster", nil, err)
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	quorum.Topics = append(quorum.Topics, topic)
	described, err := quorum.RequestWith(c.ctx, c.client)
	if err == nil {
		state := described.Topics[0].Partitions[0]
		c.tell("quorum", []any{state.ErrorCode, state.LeaderID, len(state.CurrentVoters)}, nil)
	} else {
		c.tell("quorum", nil, err)
	}
	configs, err := c.admin.DescribeBrokerConfigs(c.ctx, brokers.Controller)
	c.tell("broker configuration", chosen(configs, "compression.type", "delete.topic.enable"), err)
}

func (c console) fill() {
	created, err := c.admin.CreateTopic(c.ctx, 2, 1, map[string]*string{"retention.bytes": kadm.StringPtr("1000000")}, c.Topic)
	c.tell("create", []any{created.NumPartitions, created.ReplicationFactor}, err)
	for i := range records {
		c.client.Produce(c.ctx, &kgo.Record{
			Topic:     c.Topic,
			Key:       []byte("key " + strconv.Itoa(i)),
			Value:     []byte("value " + strconv.Itoa(i)),
			Timestamp: time.UnixMilli(firstTime + int64(i)),
		}, nil)
	}
	c.tell("produce", records, c.client.Flush(c.ctx))
}

func (c console) topic() {
	topics, err := c.admin.ListTopics(c.ctx, c.Topic, c.Topic+"-none")
	for _, topic := range topics.Sorted() {
		for _, partition := range topic.Partitions.Sorted() {
			c.tell("partition", []any{partition.Partition, partition.Leader, partition.Replicas, partition.ISR}, partition.Err)
		}
		c.tell("topic", topic.IsInternal, topic.Err)
	}
	configs, err2 := c.admin.DescribeTopicConfigs(c.ctx, c.Topic)
	c.tell("topic configuration", chosen(configs, "cleanup.policy", "retention.bytes"), errors.Join(err, err2))
	set := kadm.TopicsSet{}
	set.Add(c.Topic, 0, 1)
	var replicas []string
	var dirs kadm.DescribedAllLogDirs
	for ; len(replicas) < 2; time.Sleep(50 * time.Millisecond) { // Kafka makes a partition's directory after its answer
		replicas = nil
		if dirs, err = c.admin.DescribeAllLogDirs(c.ctx, set); err != nil {
			break
		}
		dirs.Each(func(dir kadm.DescribedLogDir) {
			err = errors.Join(err, dir.Err)
			dir.Topics.Each(func(each kadm.DescribedLogDirPartition) {
				replicas = append(replicas, fmt.Sprint(each.Broker, " ", each.Partition, " ", each.Size > 0, " ", each.IsFuture))
			})
		})
	}
	sort.Strings(replicas)
	c.tell("replicas", replicas, err)
	c.tell("directories", len(dirs), err)
	starts, err := c.admin.ListStartOffsets(c.ctx, c.Topic)
	c.tell("starts", offsets(starts), err)
	ends, err := c.admin.ListEndOffsets(c.ctx, c.Topic)
	c.tell("ends", offsets(ends), err)
	for _, time := range []int64{firstTime + 4, firstTime + 1_000} {
		after, err := c.admin.ListOffsetsAfterMilli(c.ctx, time, c.Topic)
		c.tell("after", offsets(after), err)
	}
	newest, err := c.admin.ListMaxTimestampOffsets(c.ctx, c.Topic)
	c.tell("newest", offsets(newest), err)
	c.messages()
	reassigned, err := c.admin.ListPartitionReassignments(c.ctx, set)
	c.tell("reassignments", len(reassigned), err)
	producers, err := c.admin.DescribeProducers(c.ctx, set)
	c.tell("producers", len(producers.SortedProducers()), err)
	transactions, err := c.admin.ListTransactions(c.ctx, nil, []string{"Ongoing"})
	c.tell("transactions", len(transactions), err)
}

// messages reads the last three records, as the page of a topic does.
func (c console) messages() {
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(c.Bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: {0: kgo.NewOffset().AtEnd().Relative(-3)}}),
	)
	if err != nil {
		lines.Fail(err)
	}
	defer reader.Close()
	var told []string
	for len(told) < 3 && c.ctx.Err() == nil {
		fetches := reader.PollFetches(c.ctx)
		fetches.EachRecord(func(r *kgo.Record) {
			told = append(told, fmt.Sprint(r.Offset, " ", string(r.Key), " ", r.Timestamp.UnixMilli()-firstTime))
		})
	}
	c.tell("messages", told, c.ctx.Err())
}

func (c console) groups() {
	var committed kadm.Offsets
	committed.AddOffset(c.Topic, 0, 4, -1)
	c.tell("commit", nil, c.admin.CommitAllOffsets(c.ctx, c.Group, committed))
	listed, err := c.admin.ListGroups(c.ctx)
	c.tell("listed", listed[c.Group].State, err)
	described, err := c.admin.DescribeGroups(c.ctx, c.Group)
	for _, group := range described.Sorted() {
		c.tell("group", []any{group.State, len(group.Members)}, group.Err)
	}
	lags, err2 := c.admin.Lag(c.ctx, c.Group)
	for _, lag := range lags.Sorted() {
		c.tell("lag", lag.Lag.Total(), lag.Error())
	}
	fetched, err3 := c.admin.FetchOffsets(c.ctx, c.Group)
	at, _ := fetched.Lookup(c.Topic, 0)
	c.tell("committed", at.At, errors.Join(err, err2, err3))
	c.tell("delete group", nil, ignore(c.admin.DeleteGroup(c.ctx, c.Group)))
}

func (c console) security() {
	rules := kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny)
	found, err := c.admin.DescribeACLs(c.ctx, rules)
	for _, each := range found {
		c.tell("rules", len(each.Described), each.Err)
	}
	c.tell("all rules", len(found), err)
	users, err := c.admin.DescribeUserSCRAMs(c.ctx)
	c.tell("users", len(users), err)
	quotas, err := c.admin.DescribeClientQuotas(c.ctx, false, nil)
	c.tell("quotas", len(quotas), err)
}

func (c console) edit() {
	altered, err := c.admin.AlterTopicConfigs(c.ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: kadm.StringPtr("5000")}}, c.Topic)
	for _, each := range altered {
		c.tell("alter", each.ErrMessage, each.Err)
	}
	grown, err2 := c.admin.UpdatePartitions(c.ctx, 3, c.Topic)
	c.tell("grow", len(grown), errors.Join(err, err2, grown.Error()))
	var until kadm.Offsets
	until.AddOffset(c.Topic, 0, 6, -1)
	truncated, err := c.admin.DeleteRecords(c.ctx, until)
	for _, each := range truncated.Sorted() {
		c.tell("truncate", each.LowWatermark, each.Err)
	}
	set := kadm.TopicsSet{}
	set.Add(c.Topic, 0)
	elected, err2 := c.admin.ElectLeaders(c.ctx, kadm.ElectPreferredReplica, set)
	for _, partitions := range elected {
		for _, each := range partitions {
			c.tell("elect", each.ErrMessage != "", each.Err)
		}
	}
	var moves kadm.AlterPartitionAssignmentsReq
	moves.Assign(c.Topic, 0, []int32{1})
	moves.Assign(c.Topic, 1, []int32{7})
	moves.CancelAssign(c.Topic, 2)
	moved, err3 := c.admin.AlterPartitionAssignments(c.ctx, moves)
	for _, each := range moved.Sorted() {
		c.tell("reassign", each.Partition, each.Err)
	}
	c.tell("edited", nil, errors.Join(err, err2, err3))
}

// chosen is what some keys of a configuration are, and where that comes from.
func chosen(configs kadm.ResourceConfigs, keys ...string) []string {
	var told []string
	for _, resource := range configs {
		for _, config := range resource.Configs {
			for _, key := range keys {
				if config.Key == key {
					told = append(told, key+" "+config.MaybeValue()+" "+config.Source.String())
				}
			}
		}
	}
	sort.Strings(told)
	return told
}

// offsets is what was found for each partition, in their order.
func offsets(listed kadm.ListedOffsets) []int64 {
	found := map[int32]int64{}
	listed.Each(func(each kadm.ListedOffset) { found[each.Partition] = each.Offset })
	told := make([]int64, len(found))
	for partition, offset := range found {
		told[partition] = offset
	}
	return told
}
