// Command segmentio has applications on kafka-go. Each has one bug, which --fixed removes.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

var (
	bootstrap = flag.String("bootstrap", "", "HOST:PORT")
	source    = flag.String("in", "", "the topic to read")
	target    = flag.String("out", "", "the topic to write")
	group     = flag.String("group", "", "the consumer group")
	fixed     = flag.Bool("fixed", false, "run without the bug")
)

// readCommits reads with the method that commits by itself, and ends at a failure. weiboad/kafka-php#187
func readCommits(ctx context.Context, reader *kafka.Reader, writer *kafka.Writer) error {
	read := reader.ReadMessage
	if *fixed {
		read = reader.FetchMessage
	}
	for {
		message, err := read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := writer.WriteMessages(context.Background(), kafka.Message{Key: message.Key, Value: message.Value}); err != nil {
			return err
		}
		if *fixed {
			if err := reader.CommitMessages(ctx, message); err != nil {
				log.Print("not committed: ", err)
			}
		}
	}
}

func main() {
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{*bootstrap},
		GroupID:           *group,
		Topic:             *source,
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    6 * time.Second,
		HeartbeatInterval: 200 * time.Millisecond,
		JoinGroupBackoff:  20 * time.Millisecond,
		ReadBackoffMin:    20 * time.Millisecond,
		ReadBackoffMax:    200 * time.Millisecond,
		MaxWait:           100 * time.Millisecond,
	})
	writer := &kafka.Writer{
		Addr:         kafka.TCP(*bootstrap),
		Topic:        *target,
		Balancer:     &kafka.Hash{},
		BatchTimeout: time.Millisecond,
		RequiredAcks: kafka.RequireAll,
		MaxAttempts:  1,
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := readCommits(ctx, reader, writer)
	if err != nil {
		log.Fatal(err) // whatever watches over it starts it again
	}
	if err := reader.Close(); err != nil {
		log.Print(err)
	}
	if err := writer.Close(); err != nil {
		log.Print(err)
	}
}
