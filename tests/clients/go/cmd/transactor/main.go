// Command transactor makes transactions through franz-go; transactors.py says what it reads and prints.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"minibroker.test/clients/lines"
)

type config struct {
	Bootstrap            string
	ClientID             string `json:"client_id"`
	TransactionalID      string `json:"transactional_id"`
	TransactionTimeoutMs int64  `json:"transaction_timeout_ms"`
	SessionTimeoutMs     int64  `json:"session_timeout_ms"`
}

// transactor holds one client for transactions of its own, and one session that consumes within a transaction.
type transactor struct {
	config  config
	client  *kgo.Client
	copying *kgo.GroupTransactSession
}

func (t *transactor) options(transactionalID string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(t.config.Bootstrap),
		kgo.ClientID(t.config.ClientID),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(time.Duration(t.config.TransactionTimeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
}

type command struct {
	Topic     string
	Partition int32
	Values    []string
	Isolation string
	Until     string
	Group     string
	Source    string
	Target    string
	Count     int
	Commit    bool
}

func (t *transactor) produce(ctx context.Context, c command) error {
	records := []*kgo.Record{}
	for _, value := range c.Values {
		records = append(records, &kgo.Record{Topic: c.Topic, Partition: c.Partition, Value: []byte(value)})
	}
	return t.client.ProduceSync(ctx, records...).FirstErr()
}

func (t *transactor) end(ctx context.Context, try kgo.TransactionEndTry) error {
	if try == kgo.TryAbort {
		if err := t.client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
	}
	return t.client.EndTransaction(ctx, try)
}

func (t *transactor) read(ctx context.Context, c command) ([]string, error) {
	isolation := kgo.ReadCommitted()
	if c.Isolation == "read_uncommitted" {
		isolation = kgo.ReadUncommitted()
	}
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(t.config.Bootstrap),
		kgo.ConsumeTopics(c.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(isolation),
	)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	values := []string{}
	for {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
			if values[len(values)-1] == c.Until {
				return values, nil
			}
		}
	}
}

func (t *transactor) copy(ctx context.Context, c command) ([]string, error) {
	session, err := kgo.NewGroupTransactSession(append(
		t.options(t.config.TransactionalID+"-copy"),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(time.Duration(t.config.SessionTimeoutMs)*time.Millisecond),
		kgo.HeartbeatInterval(100*time.Millisecond),
	)...)
	if err != nil {
		return nil, err
	}
	t.copying = session
	if err := session.Begin(); err != nil {
		return nil, err
	}
	values := []string{}
	for len(values) < c.Count {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		records := []*kgo.Record{}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
			records = append(records, &kgo.Record{Topic: c.Target, Value: record.Value})
		}
		if err := session.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (t *transactor) endCopy(ctx context.Context, c command) (bool, error) {
	defer t.copying.Close()
	return t.copying.End(ctx, kgo.TransactionEndTry(c.Commit))
}

func (t *transactor) handle(do string, c command) lines.Fields {
	ctx, cancel := context.WithTimeout(context.Background(), 280*time.Second)
	defer cancel()
	var err error
	answer := lines.Fields{}
	switch do {
	case "begin":
		err = t.client.BeginTransaction()
	case "produce":
		err = t.produce(ctx, c)
	case "commit":
		err = t.end(ctx, kgo.TryCommit)
	case "abort":
		err = t.end(ctx, kgo.TryAbort)
	case "read":
		answer["values"], err = t.read(ctx, c)
	case "copy":
		answer["values"], err = t.copy(ctx, c)
	case "end_copy":
		answer["committed"], err = t.endCopy(ctx, c)
	default:
		err = fmt.Errorf("no such command: %s", do)
	}
	answer["error"] = lines.Text(err)
	return answer
}

func main() {
	t := &transactor{}
	lines.Argument(&t.config)
	client, err := kgo.NewClient(t.options(t.config.TransactionalID)...)
	if err != nil {
		lines.Fail(err)
	}
	t.client = client
	// Its producer id is asked for with the first record unless something asks before.
	if _, _, err := client.ProducerID(context.Background()); err != nil {
		lines.Fail(err)
	}
	lines.Emit("done", lines.Fields{"error": nil})
	lines.Commands(func(do string, text []byte) {
		var c command
		lines.Decode(text, &c)
		lines.Emit("done", t.handle(do, c))
	})
	os.Exit(0)
}
