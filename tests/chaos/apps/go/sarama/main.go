// Command sarama has applications on sarama. Each has one bug, which --fixed removes.
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

	"github.com/IBM/sarama"
)

var (
	bootstrap = flag.String("bootstrap", "", "HOST:PORT")
	source    = flag.String("in", "", "the topic to read")
	target    = flag.String("out", "", "the topic to write")
	group     = flag.String("group", "", "the consumer group")
	fixed     = flag.Bool("fixed", false, "run without the bug")
)

// handler copies the records of a claim, each once in the life of the process.
type handler struct {
	producer sarama.SyncProducer
	seen     *sync.Map
}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		if _, again := h.seen.LoadOrStore([2]int64{int64(message.Partition), message.Offset}, true); !again {
			_, _, err := h.producer.SendMessage(&sarama.ProducerMessage{
				Topic: *target,
				Key:   sarama.ByteEncoder(message.Key),
				Value: sarama.ByteEncoder(message.Value),
			})
			if err != nil {
				log.Fatal(err)
			}
		}
		session.MarkMessage(message, "")
	}
	return nil
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Metadata.Retry.Backoff = 20 * time.Millisecond
	config.Net.ReadTimeout = 3 * time.Second
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 100
	config.Producer.Retry.Backoff = 20 * time.Millisecond
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "not_idempotent":
		// What a lost answer leaves unknown is sent again, and written twice. IBM/sarama#1965
		config.Producer.Idempotent = *fixed
		if *fixed {
			config.Net.MaxOpenRequests = 1
		}
	case "newest_offset":
		// Where nothing is committed yet, a rebalance skips what was not read. IBM/sarama#1739
		if !*fixed {
			config.Consumer.Offsets.Initial = sarama.OffsetNewest
		}
	default:
		log.Fatal("no such application: ", os.Args[1])
	}
	producer, err := sarama.NewSyncProducer([]string{*bootstrap}, config)
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := sarama.NewConsumerGroup([]string{*bootstrap}, *group, config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	copies := handler{producer, &sync.Map{}}
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{*source}, copies); err != nil {
			log.Print("consume: ", err)
		}
	}
	if err := consumer.Close(); err != nil {
		log.Print(err)
	}
	if err := producer.Close(); err != nil {
		log.Print(err)
	}
}
