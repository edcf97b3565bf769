// Command franz has applications on franz-go. Each has one bug, which --fixed removes.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap = flag.String("bootstrap", "", "HOST:PORT")
	source    = flag.String("in", "", "the topic to read")
	target    = flag.String("out", "", "the topic to write")
	group     = flag.String("group", "", "the consumer group")
	fixed     = flag.Bool("fixed", false, "run without the bug")
)

func client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(*bootstrap),
		kgo.ConsumerGroup(*group),
		kgo.ConsumeTopics(*source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.BlockRebalanceOnPoll(),
		kgo.DefaultProduceTopic(*target),
	}, options...)...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func copied(record *kgo.Record) *kgo.Record {
	return &kgo.Record{Key: record.Key, Value: record.Value}
}

// ignoredResults marks records whatever became of their copies. oleksiyk/kafka#127
func ignoredResults(ctx context.Context) {
	client := client(kgo.DisableAutoCommit(), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 10)
		for _, record := range fetches.Records() {
			for {
				err := client.ProduceSync(context.Background(), copied(record)).FirstErr()
				if err != nil {
					log.Print("not sent: ", err)
				}
				if err == nil || !*fixed {
					break
				}
			}
		}
		if err := client.CommitRecords(context.Background(), fetches.Records()...); err != nil {
			log.Print("not committed: ", err)
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

// commitsAheadOfGoroutines leaves commits to the client while goroutines work. quarkusio/quarkus#40914
func commitsAheadOfGoroutines(ctx context.Context) {
	client := client(kgo.AutoCommitInterval(100 * time.Millisecond))
	working := sync.WaitGroup{}
	for ctx.Err() == nil {
		client.PollRecords(ctx, 10).EachRecord(func(record *kgo.Record) {
			working.Add(1)
			client.Produce(context.Background(), copied(record), func(_ *kgo.Record, err error) {
				if err != nil {
					log.Fatal(err)
				}
				working.Done()
			})
		})
		if *fixed {
			working.Wait()
		}
		client.AllowRebalance()
	}
	working.Wait()
	client.CloseAllowingRebalance()
}

func main() {
	applications := map[string]func(context.Context){
		"ignored_results":             ignoredResults,
		"commits_ahead_of_goroutines": commitsAheadOfGoroutines,
	}
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	applications[os.Args[1]](ctx)
}
