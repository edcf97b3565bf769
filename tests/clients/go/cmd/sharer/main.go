// Command sharer is a member of a share group through franz-go, driven by lines; test_share_consumers.py says how.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"minibroker.test/clients/lines"
)

var statuses = map[string]kgo.AckStatus{
	"ACCEPT": kgo.AckAccept, "RELEASE": kgo.AckRelease, "REJECT": kgo.AckReject, "RENEW": kgo.AckRenew,
}

// outcomes is what the broker has answered to acknowledgements since it was last taken.
type outcomes struct {
	sync.Mutex
	partitions map[string]bool
	errors     []string
}

func (o *outcomes) add(_ *kgo.Client, results kgo.ShareAckResults) {
	o.Lock()
	defer o.Unlock()
	for _, each := range results {
		o.partitions[fmt.Sprint(each.Topic, "-", each.Partition)] = true
		if each.Err != nil {
			o.errors = append(o.errors, each.Err.Error())
		}
	}
}

func (o *outcomes) take() lines.Fields {
	o.Lock()
	defer o.Unlock()
	taken := lines.Fields{"partitions": len(o.partitions), "errors": o.errors}
	o.partitions, o.errors = map[string]bool{}, []string{}
	return taken
}

type sharer struct {
	client   *kgo.Client
	polled   map[int64]*kgo.Record
	outcomes *outcomes
}

func (s *sharer) poll(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	s.polled = map[int64]*kgo.Record{}
	found := [][3]any{}
	for len(found) == 0 && ctx.Err() == nil {
		s.client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			s.polled[record.Offset] = record
			found = append(found, [3]any{record.Offset, string(record.Value), record.DeliveryCount()})
		})
	}
	lines.Emit("polled", lines.Fields{"records": found})
}

func (s *sharer) serve(words []string) {
	switch words[0] {
	case "poll":
		s.poll(time.Duration(number(words[1])) * time.Millisecond)
	case "acknowledge":
		for _, each := range words[2:] {
			s.polled[number(each)].Ack(statuses[words[1]])
		}
		lines.Emit("acknowledged", nil)
	case "commit":
		if err := s.client.FlushAcks(context.Background()); err != nil {
			lines.Fail(err)
		}
		lines.Emit("committed", s.outcomes.take())
	default:
		lines.Fail(fmt.Errorf("no such command: %s", words[0]))
	}
}

func number(word string) int64 {
	found, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		lines.Fail(err)
	}
	return found
}

func main() {
	heard := &outcomes{}
	heard.take()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ShareGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.ShareMaxRecordsStrict(), // nothing is fetched before it is polled
		kgo.ShareAckCallback(heard.add),
	)
	if err != nil {
		lines.Fail(err)
	}
	each := &sharer{client: client, outcomes: heard}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		each.serve(strings.Fields(input.Text()))
	}
	client.Close()
	lines.Emit("closed", nil)
}
