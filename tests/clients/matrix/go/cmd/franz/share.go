//go:build !old

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	. "minibroker.test/matrix/checks"
)

func init() {
	Later = append(Later, Check{"share-group", shareGroup})
}

var acknowledgements = map[string]kgo.AckStatus{"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject}

func shareGroup(ctx context.Context) error {
	topic, group := newTopic(ctx, "share-group", 1), Prefix+"-share-group"
	if err := fromTheStart(ctx, group); err != nil {
		return err
	}
	if err := send(ctx, topic, nil, "accept", "release", "reject"); err != nil {
		return err
	}
	var (
		lock    sync.Mutex
		refused error
	)
	client := open(kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.ShareAckCallback(
		func(_ *kgo.Client, results kgo.ShareAckResults) {
			lock.Lock()
			defer lock.Unlock()
			for _, each := range results {
				refused = errors.Join(refused, each.Err)
			}
		}))
	found := []string{}
	for len(found) < 4 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			value, count := string(record.Value), record.DeliveryCount()
			found = append(found, fmt.Sprint(value, " ", count))
			if count == 1 {
				record.Ack(acknowledgements[value])
			} else {
				record.Ack(kgo.AckAccept)
			}
		})
		if err := client.FlushAcks(ctx); err != nil {
			return err
		}
	}
	client.Close()
	slices.Sort(found)
	so := slices.Equal(found, []string{"accept 1", "reject 1", "release 1", "release 2"})
	lock.Lock()
	defer lock.Unlock()
	return errors.Join(refused, That(so, found))
}

func fromTheStart(ctx context.Context, group string) error {
	client := open()
	defer client.Close()
	earliest := "earliest"
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", &earliest
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Resources[0].ErrorCode)
}
