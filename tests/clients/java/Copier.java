import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic to another one, each record exactly once, through whatever happens to the broker.
 *
 * <p>Arguments: BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL_ID
 * [RECORDS [SESSION_TIMEOUT_MS [TRANSACTION_TIMEOUT_MS [DOOMED SEED]]]].
 * RECORDS is how many records a transaction has at most (default 10), the timeouts are 6000 and 10000 by default.
 * DOOMED percent of the transactions, as SEED has it, are aborted on purpose; their values end with ` doomed`.
 * Several copiers may share a group, each with a transactional id of its own. Partition n of the input goes to
 * partition n of the output, modulo its partitions, under the key of the input record; the value becomes
 * `INPUT-PARTITION@OFFSET VALUE`, for example `orders-0@17 hello`.
 *
 * <p>Whatever fails is aborted and read again from the offsets that the group has committed. A producer that cannot
 * go on (fenced, or its commit or abort got no answer) is closed, and a new one with the same transactional id takes
 * its place. The copier never gives up; it ends at the end of its standard input, after the transaction at hand.
 *
 * <p>It prints events as lines of JSON:
 * <pre>
 * {"event":"ready"}                                     both clients exist, the transactional id is taken over
 * {"event":"assigned","partitions":[["orders",0]]}      all that it copies from now on
 * {"event":"committed","ranges":[["orders",0,17,20]]}   offsets 17, 18 and 19 are copied: the broker said so
 * {"event":"aborted","error":"..."}                     a transaction was aborted, or nothing had begun
 * {"event":"recreated","error":"..."}                   a new producer has taken over
 * {"event":"closed"}                                    the last line; exit status 0
 * </pre>
 */
public final class Copier {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String BLOCKED_MS = "10000";
    private static final String DOOMED = " doomed";

    private final String bootstrap;
    private final String group;
    private final String input;
    private final String output;
    private final String transactionalId;
    private final String records;
    private final String sessionTimeoutMs;
    private final String transactionTimeoutMs;
    private final int doomedPercent;
    private final Random random;
    private final KafkaConsumer<String, String> consumer;
    private KafkaProducer<String, String> producer;
    private volatile boolean ending;

    private Copier(String[] arguments) {
        bootstrap = arguments[0];
        group = arguments[1];
        input = arguments[2];
        output = arguments[3];
        transactionalId = arguments[4];
        records = arguments.length > 5 ? arguments[5] : "10";
        sessionTimeoutMs = arguments.length > 6 ? arguments[6] : "6000";
        transactionTimeoutMs = arguments.length > 7 ? arguments[7] : "10000";
        doomedPercent = arguments.length > 9 ? Integer.parseInt(arguments[8]) : 0;
        random = new Random(arguments.length > 9 ? Long.parseLong(arguments[9]) : 0);
        consumer = makeConsumer();
    }

    /** Copies until standard input ends. */
    public static void main(String[] arguments) {
        Copier copier = new Copier(arguments);
        Thread line = new Thread(copier::awaitEndOfInput);
        line.setDaemon(true);
        line.start();
        copier.run();
        Json.event("closed");
        System.exit(0);
    }

    private void awaitEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // What it says does not matter.
            }
        } catch (java.io.IOException broken) {
            // The same as its end.
        }
        ending = true;
    }

    private void run() {
        takeOver();
        Json.event("ready");
        consumer.subscribe(List.of(input), new Assignments());
        while (!ending) {
            try {
                ConsumerRecords<String, String> polled = consumer.poll(POLL);
                if (!polled.isEmpty()) {
                    copy(polled);
                }
            } catch (KafkaException failure) {
                abort(failure);
                rewind();
            }
        }
        try {
            consumer.close();
            producer.close(Duration.ofSeconds(5));
        } catch (KafkaException failure) {
            Json.event("error", "text", failure);
        }
    }

    private void copy(ConsumerRecords<String, String> polled) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        List<List<Object>> ranges = new ArrayList<>();
        String doom = random.nextInt(100) < doomedPercent ? DOOMED : "";
        producer.beginTransaction();
        int partitions = producer.partitionsFor(output).size();
        for (TopicPartition partition : polled.partitions()) {
            List<ConsumerRecord<String, String>> part = polled.records(partition);
            for (ConsumerRecord<String, String> each : part) {
                String value = partition + "@" + each.offset() + " " + each.value() + doom;
                producer.send(
                        new ProducerRecord<>(output, partition.partition() % partitions, each.key(), value));
            }
            long first = part.get(0).offset();
            long next = part.get(part.size() - 1).offset() + 1;
            offsets.put(partition, new OffsetAndMetadata(next));
            ranges.add(List.of(partition.topic(), partition.partition(), first, next));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (!doom.isEmpty()) {
            throw new KafkaException("on purpose");
        }
        commit();
        Json.event("committed", "ranges", ranges);
    }

    /** A commit without an answer may have happened; only to ask again is safe. */
    private void commit() {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException late) {
                if (ending) {
                    throw late;
                }
            }
        }
    }

    private void abort(KafkaException failure) {
        try {
            producer.abortTransaction();
            Json.event("aborted", "error", failure);
        } catch (KafkaException | IllegalStateException fatal) {
            // IllegalStateException: no transaction was open, or its commit is still to be answered.
            if (!ending) {
                takeOver();
                Json.event("recreated", "error", failure);
            }
        }
    }

    /** Makes a new producer; what the one before has left open is committed or aborted when this returns. */
    private void takeOver() {
        while (!ending) {
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
            producer = makeProducer();
            try {
                producer.initTransactions();
                return;
            } catch (KafkaException failure) {
                Json.event("error", "text", failure);
            }
        }
    }

    /** Back to the committed offsets: what was polled after them has not been copied. */
    private void rewind() {
        while (!ending) {
            try {
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                committed.forEach((partition, offset) -> {
                    if (offset == null) {
                        consumer.seekToBeginning(List.of(partition));
                    } else {
                        consumer.seek(partition, offset.offset());
                    }
                });
                return;
            } catch (KafkaException failure) {
                Json.event("error", "text", failure);
            }
        }
    }

    private KafkaConsumer<String, String> makeConsumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("group.protocol", "classic");
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", records);
        properties.put("session.timeout.ms", sessionTimeoutMs);
        properties.put("heartbeat.interval.ms", Integer.toString(Integer.parseInt(sessionTimeoutMs) / 5));
        properties.put("default.api.timeout.ms", BLOCKED_MS);
        properties.put("request.timeout.ms", "5000");
        properties.put("reconnect.backoff.max.ms", "200");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private KafkaProducer<String, String> makeProducer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", transactionalId);
        properties.put("transaction.timeout.ms", transactionTimeoutMs);
        properties.put("max.block.ms", BLOCKED_MS);
        properties.put("delivery.timeout.ms", BLOCKED_MS);
        properties.put("request.timeout.ms", "5000");
        properties.put("reconnect.backoff.max.ms", "200");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private final class Assignments implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            // Between two transactions: there is nothing to finish.
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            Map<String, List<Object>> sorted = new TreeMap<>();
            for (TopicPartition each : consumer.assignment()) {
                sorted.put(each.toString(), List.of(each.topic(), each.partition()));
            }
            Json.event("assigned", "partitions", sorted.values());
        }
    }
}
