import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer goes through everything that can happen to it, and the admin client looks on.
 *
 * <p>Arguments: BOOTSTRAP PREFIX, where PREFIX is new in each run. It prints its `Answers`.
 */
public final class Transactions implements AutoCloseable {
    private static final int TIMEOUT_MS = 1000;

    private final String bootstrap;
    private final String prefix;
    private final Answers answers;
    private final Admin admin;
    private final TopicPartition left;
    private final TopicPartition right;

    private Transactions(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        answers = new Answers(prefix);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        admin = Admin.create(properties);
        left = new TopicPartition(prefix + "topic", 0);
        right = new TopicPartition(prefix + "topic", 1);
    }

    /** Asks everything once. */
    public static void main(String[] arguments) throws Exception {
        try (Transactions run = new Transactions(arguments[0], arguments[1])) {
            run.admin.createTopics(List.of(new NewTopic(run.left.topic(), 2, (short) 1))).all().get();
            run.commitAndAbort();
            run.offsets();
            run.fencing();
            run.timeouts();
            run.hanging();
            run.interleaved();
            run.refused();
            run.deleted();
            run.listings();
        }
    }

    @Override
    public void close() {
        admin.close();
    }

    private void commitAndAbort() {
        try (KafkaProducer<String, String> producer = producer("plain", 60_000)) {
            answers.note("unknown transactional id", () -> description("plain"));
            answers.note("init", done(producer::initTransactions));
            answers.note("state after init", () -> description("plain"));
            answers.note("begin", done(producer::beginTransaction));
            answers.note("first record", sent(producer, left, "committed left"));
            answers.note("second record", sent(producer, right, "committed right"));
            answers.note("state while open", () -> description("plain"));
            answers.note("producers while open", this::producers);
            answers.note("ends while open", this::ends);
            answers.note("read while open", () -> read("read_committed"));
            answers.note("commit", done(producer::commitTransaction));
            answers.note("state after commit", () -> description("plain"));
            answers.note("producers after commit", this::producers);
            answers.note("ends after commit", this::ends);
            answers.note("begin again", done(producer::beginTransaction));
            answers.note("third record", sent(producer, left, "aborted left"));
            answers.note("abort", done(producer::abortTransaction));
            answers.note("state after abort", () -> description("plain"));
            answers.note("producers after abort", this::producers);
            answers.note("an empty transaction", done(() -> {
                producer.beginTransaction();
                producer.commitTransaction();
            }));
            answers.note("state after an empty transaction", () -> description("plain"));
        }
        answers.note("committed", () -> read("read_committed"));
        answers.note("uncommitted", () -> read("read_uncommitted"));
    }

    private void offsets() {
        String group = prefix + "group";
        try (KafkaProducer<String, String> producer = producer("offsets", 60_000)) {
            ConsumerGroupMetadata nobody = metadata(group, false);
            producer.initTransactions();
            producer.beginTransaction();
            answers.note(
                    "send offsets",
                    done(() -> producer.sendOffsetsToTransaction(
                            Map.of(left, new OffsetAndMetadata(1, "in a transaction")), nobody)));
            answers.note("offsets while open", () -> committed(group));
            answers.note("state with offsets", () -> description("offsets"));
            answers.note("commit offsets", done(producer::commitTransaction));
            answers.note("state after offsets", () -> description("offsets"));
            answers.note("offsets after commit", () -> committed(group));
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(left, new OffsetAndMetadata(2, "never")), nobody);
            answers.note("abort offsets", done(producer::abortTransaction));
            answers.note("state after aborted offsets", () -> description("offsets"));
            answers.note("offsets after abort", () -> committed(group));
            ConsumerGroupMetadata gone = metadata(group, true);
            producer.beginTransaction();
            answers.note(
                    "offsets of a member that has left",
                    done(() -> producer.sendOffsetsToTransaction(Map.of(left, new OffsetAndMetadata(3)), gone)));
            answers.note("abort of one that has left", done(producer::abortTransaction));
            answers.note("state after one that has left", () -> description("offsets"));
            answers.note("offsets after one that has left", () -> committed(group));
        }
    }

    /** What a consumer tells of its group, which it has joined or not, and has left again. */
    private ConsumerGroupMetadata metadata(String group, boolean joins) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("group.protocol", "classic");
        properties.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            if (joins) {
                consumer.subscribe(List.of(left.topic()));
                while (consumer.assignment().isEmpty()) {
                    consumer.poll(Duration.ofMillis(100));
                }
            }
            return consumer.groupMetadata();
        }
    }

    private void fencing() {
        try (KafkaProducer<String, String> first = producer("fenced", 60_000);
                KafkaProducer<String, String> second = producer("fenced", 60_000)) {
            first.initTransactions();
            first.beginTransaction();
            answers.note("before fencing", sent(first, left, "fenced"));
            answers.note("second init", done(second::initTransactions));
            answers.note("state after second init", () -> description("fenced"));
            answers.note("commit of the fenced", done(first::commitTransaction));
            answers.note("abort of the fenced", done(first::abortTransaction));
            second.beginTransaction();
            answers.note("record of the second", sent(second, left, "second"));
            answers.note("commit of the second", done(second::commitTransaction));
            answers.note("state after the second", () -> description("fenced"));
            answers.note(
                    "fenced by an admin", () -> {
                        String id = prefix + "fenced";
                        var result = admin.fenceProducers(List.of(id));
                        return Answers.object(
                                "producer", answers.producer(result.producerId(id).get()),
                                "epoch", result.epochId(id).get());
                    });
            second.beginTransaction();
            answers.note("record after an admin", sent(second, left, "never"));
            answers.note("commit after an admin", done(second::commitTransaction));
            answers.note("state after an admin", () -> description("fenced"));
        }
        answers.note("committed with the second", () -> read("read_committed"));
    }

    private void timeouts() {
        try (KafkaProducer<String, String> producer = producer("patient", 2_000_000_000)) {
            answers.note("too long a timeout", done(producer::initTransactions));
        }
        try (KafkaProducer<String, String> producer = producer("late", TIMEOUT_MS)) {
            producer.initTransactions();
            producer.beginTransaction();
            answers.note("before the timeout", sent(producer, left, "too late"));
            answers.note("the timeout", () -> {
                while (describe("late").state() == TransactionState.ONGOING) {
                    Thread.sleep(10);
                }
                return description("late");
            });
            answers.note("ends after the timeout", this::ends);
            answers.note("commit after the timeout", done(producer::commitTransaction));
        }
        try (KafkaProducer<String, String> producer = producer("late", 60_000)) {
            answers.note("init after the timeout", done(producer::initTransactions));
            answers.note("state of the new one", () -> description("late"));
        }
    }

    private void hanging() {
        try (KafkaProducer<String, String> producer = producer("hanging", 60_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            answers.note("first of all", sent(producer, right, "first of all"));
            answers.note("commit of it", done(producer::commitTransaction));
            answers.note("state before it hangs", () -> description("hanging"));
        }
        try (KafkaProducer<String, String> producer = producer("hanging", 60_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            answers.note("before it hangs", sent(producer, right, "hanging"));
            answers.note("aborted with a wrong epoch", done(() -> abort(right, -1, 0)));
            answers.note("aborted by a coordinator of old", done(() -> abort(right, 0, -1)));
            answers.note("aborted by an admin", done(() -> abort(right, 0, 0)));
            answers.note("ends after an admin", this::ends);
            answers.note("state of what hung", () -> description("hanging"));
            answers.note("abort of what hung", done(producer::abortTransaction));
            answers.note("state after all", () -> description("hanging"));
        }
        answers.note("committed at last", () -> read("read_committed"));
        answers.note("uncommitted at last", () -> read("read_uncommitted"));
    }

    private void interleaved() {
        try (KafkaProducer<String, String> slow = producer("slow", 60_000);
                KafkaProducer<String, String> quick = producer("quick", 60_000)) {
            slow.initTransactions();
            quick.initTransactions();
            slow.beginTransaction();
            quick.beginTransaction();
            answers.note("the slow one begins", sent(slow, left, "slow"));
            answers.note("the quick one", sent(quick, left, "quick"));
            answers.note("the quick one commits", done(quick::commitTransaction));
            answers.note("state of the quick one", () -> description("quick"));
            answers.note("ends behind the slow one", this::ends);
            answers.note("more of the slow one", sent(slow, left, "still slow"));
            answers.note("the slow one aborts", done(slow::abortTransaction));
            answers.note("state of the slow one", () -> description("slow"));
            answers.note("ends after both", this::ends);
            answers.note("committed of both", () -> read("read_committed"));
        }
    }

    private void refused() {
        try (KafkaProducer<String, String> producer = producer("refused", 60_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            answers.note("a good record", sent(producer, right, "good"));
            answers.note("too large a record", sent(producer, right, "x".repeat(1_100_000)));
            awaitError(producer);
            answers.note("commit of the refused", done(producer::commitTransaction));
            answers.note("abort of the refused", done(producer::abortTransaction));
            answers.note("state of the refused", () -> description("refused"));
            producer.beginTransaction();
            answers.note("a record after the refused", sent(producer, right, "better"));
            answers.note(
                    "too much metadata",
                    done(() -> producer.sendOffsetsToTransaction(
                            Map.of(left, new OffsetAndMetadata(1, "x".repeat(5_000))),
                            metadata(prefix + "group", false))));
            answers.note("commit after too much", done(producer::commitTransaction));
        }
        try (KafkaProducer<String, String> producer = producer("refused", 60_000)) {
            answers.note("another one", done(producer::initTransactions));
            answers.note("state of another one", () -> description("refused"));
        }
    }

    /** The future of a refused record is done before the producer has taken notice. */
    private static void awaitError(KafkaProducer<String, String> producer) {
        while (true) {
            try {
                producer.beginTransaction();
            } catch (KafkaException noticed) {
                return;
            } catch (IllegalStateException open) {
                Thread.onSpinWait();
            }
        }
    }

    private void deleted() throws Exception {
        TopicPartition gone = new TopicPartition(prefix + "gone", 0);
        admin.createTopics(List.of(new NewTopic(gone.topic(), 1, (short) 1))).all().get();
        try (KafkaProducer<String, String> producer = producer("deleting", 60_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            answers.note("a record that will be gone", sent(producer, gone, "gone"));
            answers.note("a record beside it", sent(producer, left, "beside"));
            answers.note("delete the topic", done(() -> admin.deleteTopics(List.of(gone.topic())).all().get()));
            answers.note("state without the topic", () -> description("deleting"));
            answers.note("commit without the topic", done(producer::commitTransaction));
            answers.note("state after the commit", () -> description("deleting"));
            answers.note("committed beside it", () -> read("read_committed"));
        }
    }

    private void listings() throws Exception {
        try (KafkaProducer<String, String> producer = producer("open", 60_000)) {
            producer.initTransactions();
            producer.beginTransaction();
            answers.note("one is open", sent(producer, right, "open"));
            answers.note("all", () -> listed(new ListTransactionsOptions()));
            answers.note(
                    "the open ones",
                    () -> listed(new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING))));
            answers.note(
                    "the ones open for a day",
                    () -> listed(new ListTransactionsOptions().filterOnDuration(86_400_000)));
            long id = describe("open").producerId();
            answers.note(
                    "one producer's",
                    () -> listed(new ListTransactionsOptions().filterProducerIds(List.of(id))));
            producer.abortTransaction();
        }
    }

    private void abort(TopicPartition partition, int epochs, int coordinatorEpochs) throws Exception {
        for (ProducerState each : active(partition)) {
            if (each.currentTransactionStartOffset().isPresent()) {
                short epoch = (short) (each.producerEpoch() + epochs);
                int coordinator = Math.max(0, each.coordinatorEpoch().orElse(0)) + coordinatorEpochs;
                admin.abortTransaction(new AbortTransactionSpec(partition, each.producerId(), epoch, coordinator))
                        .all()
                        .get();
            }
        }
    }

    private Collection<ProducerState> active(TopicPartition partition) throws Exception {
        return admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
    }

    private List<Object> producers() throws Exception {
        List<Object> found = new ArrayList<>();
        for (TopicPartition partition : List.of(left, right)) {
            found.add(Answers.each(active(partition), each -> Answers.object(
                    "producer", answers.producer(each.producerId()),
                    "epoch", each.producerEpoch(),
                    "sequence", each.lastSequence(),
                    "is dated", each.lastTimestamp() > 0,
                    "coordinator epoch", each.coordinatorEpoch().isPresent() ? each.coordinatorEpoch().getAsInt() : null,
                    "start", each.currentTransactionStartOffset().isPresent()
                            ? each.currentTransactionStartOffset().getAsLong()
                            : null)));
        }
        return found;
    }

    /** A transaction, once the coordinator does no more about its end: Kafka answers before. */
    private TransactionDescription describe(String name) throws Exception {
        String id = prefix + name;
        while (true) {
            TransactionDescription found = admin.describeTransactions(List.of(id)).description(id).get();
            switch (found.state()) {
                case PREPARE_ABORT, PREPARE_COMMIT, PREPARE_EPOCH_FENCE -> Thread.sleep(10);
                default -> {
                    return found;
                }
            }
        }
    }

    private Object description(String name) throws Exception {
        TransactionDescription found = describe(name);
        return Answers.object(
                "state", found.state(),
                "producer", answers.producer(found.producerId()),
                "epoch", found.producerEpoch(),
                "timeout", found.transactionTimeoutMs(),
                "has started", found.transactionStartTimeMs().isPresent(),
                "partitions", Answers.each(found.topicPartitions(), Transactions::withoutNumber));
    }

    /** A partition; which one of an internal topic it is depends on the prefix. */
    private static Object withoutNumber(TopicPartition partition) {
        return partition.topic().startsWith("__") ? partition.topic() : partition;
    }

    private Object listed(ListTransactionsOptions options) throws Exception {
        List<TransactionListing> ours = new ArrayList<>();
        for (TransactionListing each : admin.listTransactions(options).all().get()) {
            if (each.transactionalId().startsWith(prefix)) {
                ours.add(each);
            }
        }
        return Answers.each(
                ours,
                each -> List.of(each.transactionalId(), answers.producer(each.producerId()), each.state().toString()));
    }

    /** The last stable offset and the high watermark of both partitions. */
    private Object ends() throws Exception {
        List<Object> found = new ArrayList<>();
        Map<TopicPartition, OffsetSpec> latest = Map.of(left, OffsetSpec.latest(), right, OffsetSpec.latest());
        for (IsolationLevel level : List.of(IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)) {
            var result = admin.listOffsets(latest, new ListOffsetsOptions(level));
            found.add(List.of(result.partitionResult(left).get().offset(), result.partitionResult(right).get().offset()));
        }
        return found;
    }

    private Object committed(String group) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> found =
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return Answers.each(
                found.keySet(), each -> List.of(each, found.get(each).offset(), found.get(each).metadata()));
    }

    /** All records of both partitions up to their ends: [partition, offset, value]. */
    private Object read(String level) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", level);
        properties.put("fetch.max.wait.ms", "10"); // the next partition is asked for behind this one
        List<Object> records = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            for (TopicPartition partition : List.of(left, right)) {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                long end = consumer.endOffsets(List.of(partition)).get(partition);
                while (consumer.position(partition) < end) {
                    for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                        records.add(List.of(each.partition(), each.offset(), each.value()));
                    }
                }
            }
        }
        return records;
    }

    private KafkaProducer<String, String> producer(String name, int timeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", prefix + name);
        properties.put("transaction.timeout.ms", Integer.toString(timeoutMs));
        properties.put("max.request.size", "2000000"); // the broker is to refuse it
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    /** Sends a record and waits; the answer is its offset. */
    private static Callable<Object> sent(
            KafkaProducer<String, String> producer, TopicPartition partition, String value) {
        return () -> {
            Future<RecordMetadata> future =
                    producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value));
            producer.flush();
            return future.get().offset();
        };
    }

    private static Callable<Object> done(Step step) {
        return () -> {
            step.run();
            return "done";
        };
    }

    private interface Step {
        void run() throws Exception;
    }
}
