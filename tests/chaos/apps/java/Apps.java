import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Applications on Kafka's own client. Each has one bug, which {@code --fixed} removes. */
public final class Apps {
    private final String bootstrap;
    private final String source;
    private final String target;
    private final String group;
    private final boolean fixed;
    private final KafkaConsumer<String, String> consumer;
    private KafkaProducer<String, String> producer;
    private volatile boolean running = true;

    private Apps(List<String> arguments) {
        bootstrap = arguments.get(arguments.indexOf("--bootstrap") + 1);
        source = arguments.get(arguments.indexOf("--in") + 1);
        target = arguments.get(arguments.indexOf("--out") + 1);
        group = arguments.get(arguments.indexOf("--group") + 1);
        fixed = arguments.contains("--fixed");
        Properties properties = common();
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "10");
        properties.put("session.timeout.ms", "6000");
        properties.put("heartbeat.interval.ms", "200");
        properties.put("fetch.max.wait.ms", "100");
        consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** Runs the application that the first argument names until SIGTERM. */
    public static void main(String[] arguments) throws Exception {
        Apps apps = new Apps(Arrays.asList(arguments));
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            apps.running = false;
            try {
                main.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            switch (arguments[0]) {
                case "transaction_without_group_metadata" -> apps.transactionWithoutGroupMetadata();
                case "pause_after_rebalance" -> apps.pauseAfterRebalance();
                case "no_seek_back" -> apps.noSeekBack();
                case "retried_commit" -> apps.retriedCommit();
                default -> throw new IllegalArgumentException(arguments[0]);
            }
            apps.consumer.close();
            apps.producer.close();
        } catch (KafkaException failure) {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("request.timeout.ms", "3000");
        properties.put("reconnect.backoff.ms", "10");
        properties.put("reconnect.backoff.max.ms", "200");
        properties.put("retry.backoff.ms", "20");
        return properties;
    }

    private KafkaProducer<String, String> producer(String... options) {
        Properties properties = common();
        properties.put("delivery.timeout.ms", "10000");
        properties.put("linger.ms", "0");
        for (int i = 0; i < options.length; i += 2) {
            properties.put(options[i], options[i + 1]);
        }
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private ConsumerRecords<String, String> poll() {
        return consumer.poll(Duration.ofMillis(100));
    }

    private ProducerRecord<String, String> copy(ConsumerRecord<String, String> record) {
        return new ProducerRecord<>(target, record.key(), record.value());
    }

    private static OffsetAndMetadata after(ConsumerRecord<String, String> record) {
        return new OffsetAndMetadata(record.offset() + 1);
    }

    /** After a refusal the records come again. */
    private void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        try {
            if (offsets == null) {
                consumer.commitSync();
            } else {
                consumer.commitSync(offsets);
            }
        } catch (KafkaException refused) {
            System.err.println("not committed: " + refused);
        }
    }

    /**
     * The transaction says the group's name alone, so a member that the group has expelled commits offsets all the same.
     *
     * <p>aio-libs/aiokafka#844
     */
    @SuppressWarnings("removal")
    private void transactionWithoutGroupMetadata() throws InterruptedException {
        producer = producer("transactional.id", group + "-" + ProcessHandle.current().pid(), "max.block.ms", "10000");
        producer.initTransactions();
        consumer.subscribe(List.of(source));
        while (running) {
            ConsumerRecords<String, String> polled = poll();
            if (polled.isEmpty()) {
                continue;
            }
            try {
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : polled) {
                    Thread.sleep(10); // its work
                    producer.send(copy(record));
                    offsets.put(new TopicPartition(record.topic(), record.partition()), after(record));
                }
                ConsumerGroupMetadata member = fixed ? consumer.groupMetadata() : new ConsumerGroupMetadata(group);
                producer.sendOffsetsToTransaction(offsets, member);
                producer.commitTransaction();
            } catch (KafkaException failure) {
                System.err.println("aborted: " + failure);
                producer.abortTransaction(); // fails if the producer is fenced, or if the commit may have happened
                rewind();
            }
        }
    }

    private void rewind() {
        consumer.committed(consumer.assignment()).forEach((partition, offset) -> {
            if (offset == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, offset.offset());
            }
        });
    }

    /**
     * A partition that was paused when it was revoked is paused again when it comes back, though its work is dropped.
     *
     * <p>spring-projects/spring-kafka#2229
     */
    private void pauseAfterRebalance() throws InterruptedException, ExecutionException {
        producer = producer();
        Map<TopicPartition, Queue<ConsumerRecord<String, String>>> waiting = new HashMap<>();
        Set<TopicPartition> paused = new HashSet<>();
        consumer.subscribe(List.of(source), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                waiting.keySet().removeAll(partitions);
                if (fixed) {
                    paused.removeAll(partitions);
                }
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                paused.retainAll(consumer.assignment());
                consumer.pause(paused);
            }
        });
        while (running) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(10))) {
                TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                waiting.computeIfAbsent(partition, name -> new ArrayDeque<>()).add(record);
                paused.add(partition);
                consumer.pause(List.of(partition));
            }
            for (TopicPartition partition : Set.copyOf(waiting.keySet())) {
                ConsumerRecord<String, String> record = waiting.get(partition).remove();
                producer.send(copy(record)).get();
                commit(Map.of(partition, after(record)));
                if (waiting.get(partition).isEmpty()) {
                    waiting.remove(partition);
                    paused.remove(partition);
                    consumer.resume(List.of(partition));
                }
            }
        }
    }

    /**
     * After a record that could not be sent, the rest of the batch is left for the next poll, which gives what follows.
     *
     * <p>navikt/common-java-modules#485
     */
    private void noSeekBack() throws InterruptedException {
        producer = producer("retries", "0", "enable.idempotence", "false");
        consumer.subscribe(List.of(source));
        while (running) {
            ConsumerRecords<String, String> polled = poll();
            for (TopicPartition partition : polled.partitions()) {
                for (ConsumerRecord<String, String> record : polled.records(partition)) {
                    try {
                        producer.send(copy(record)).get();
                    } catch (ExecutionException failure) {
                        System.err.println("not sent: " + failure);
                        if (fixed) {
                            consumer.seek(partition, record.offset());
                        }
                        break;
                    }
                }
            }
            commit(null);
        }
    }

    /**
     * An asynchronous commit that failed is sent again, after newer ones.
     *
     * <p>spring-projects/spring-kafka#2076
     */
    private void retriedCommit() throws InterruptedException, ExecutionException {
        producer = producer();
        consumer.subscribe(List.of(source));
        long[] newest = {0};
        while (running) {
            for (ConsumerRecord<String, String> record : poll()) {
                producer.send(copy(record)).get();
                long number = ++newest[0];
                consumer.commitAsync(
                        Map.of(new TopicPartition(record.topic(), record.partition()), after(record)),
                        new OffsetCommitCallback() {
                            @Override
                            public void onComplete(Map<TopicPartition, OffsetAndMetadata> offsets, Exception failure) {
                                boolean again = failure instanceof RetriableCommitFailedException;
                                if (again && (!fixed || number == newest[0])) {
                                    consumer.commitAsync(offsets, this);
                                }
                            }
                        });
            }
        }
    }
}
