import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * kafka-clients: producing, reading, groups, transactions; AdminChecks has the rest. Arguments: bootstrap and prefix.
 * What not every version has, or under another name, is in the folders that are named after releases.
 */
final class Matrix {
    static final long SECONDS = Long.parseLong(System.getenv().getOrDefault("CHECK_SECONDS", "300"));

    interface Check {
        void run() throws Exception;
    }

    static String bootstrap;
    static String prefix;
    static AdminClient admin;

    private Matrix() {}

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        prefix = arguments[1];
        Map<String, Check> checks = new LinkedHashMap<>();
        add(checks);
        AdminChecks.add(checks);
        ConsumerCalls.add(checks);
        AdminCalls.add(checks);
        ShareChecks.add(checks);
        String only = System.getenv().getOrDefault("ONLY", "");
        if (!only.isEmpty()) {
            checks.keySet().retainAll(Arrays.asList(only.split(" ")));
        }
        System.out.println("{\"checks\": [\"" + String.join("\", \"", checks.keySet()) + "\"]}");
        admin = AdminClient.create(Map.of("bootstrap.servers", bootstrap));
        for (Map.Entry<String, Check> each : checks.entrySet()) {
            String[] error = {"nothing came of it within " + SECONDS + " s"};
            Thread thread = new Thread(() -> error[0] = attempt(each.getValue()));
            thread.setDaemon(true);
            thread.start();
            thread.join(SECONDS * 1000);
            System.out.println(
                "{\"check\": \"" + each.getKey() + "\", \"ok\": " + error[0].isEmpty() + ", \"error\": \"" + quoted(error[0]) + "\"}");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // clients whose checks are left behind would hold the end up
    }

    private static String attempt(Check check) {
        try {
            check.run();
            return "";
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            String place = Arrays.stream(error.getStackTrace())
                .filter(frame -> frame.getClassName().indexOf('.') < 0)
                .findFirst().map(frame -> " (" + frame.getLineNumber() + ")").orElse("");
            return cause + place;
        }
    }

    private static String quoted(String text) {
        return text.replace("\\", "/").replace('"', '\'').replace('\n', ' ').replace('\t', ' ');
    }

    static void add(Map<String, Check> checks) {
        checks.put("create-topic", () -> {
            String topic = newTopic("create-topic", 3);
            try {
                admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
                throw new AssertionError("it was not refused");
            } catch (ExecutionException expected) {
                that(expected.getCause() instanceof TopicExistsException, expected.getCause());
            }
        });
        checks.put("produce", () -> roundTrip("produce", Map.of("acks", "all", "enable.idempotence", false)));
        checks.put("acks-1", () -> roundTrip("acks-1", Map.of("acks", "1", "enable.idempotence", false)));
        checks.put("acks-0", () -> roundTrip("acks-0", Map.of("acks", "0", "enable.idempotence", false)));
        for (String codec : List.of("gzip", "snappy", "lz4")) {
            checks.put(codec, () -> roundTrip(codec, Map.of("compression.type", codec)));
        }
        checks.put("big-records", Matrix::bigRecords);
        checks.put("headers", Matrix::headers);
        checks.put("nulls", Matrix::nulls);
        checks.put("idempotent", () -> roundTrip("idempotent", Map.of("acks", "all", "enable.idempotence", true)));
        checks.put("transaction-commit", Matrix::transactionCommit);
        checks.put("transaction-abort", Matrix::transactionAbort);
        checks.put("transaction-offsets", Matrix::transactionOffsets);
        checks.put("earliest", Matrix::earliest);
        checks.put("latest", Matrix::latest);
        checks.put("timestamp", Matrix::timestamp);
        checks.put("seek", Matrix::seek);
        checks.put("auto-create", () -> {
            String topic = prefix + "-auto-create";
            send(topic, Map.of(), "v");
            that(values(read(topic, 1, 0, Map.of())).equals(List.of("v")), "not read");
        });
        checks.put("group-resume", Matrix::groupResume);
        checks.put("group-rebalance", () -> rebalance("group-rebalance", classic()));
    }

    static void that(boolean so, Object otherwise) {
        if (!so) {
            throw new AssertionError(otherwise);
        }
    }

    static void eventually(BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS * 3 / 5);
        while (!condition.getAsBoolean()) {
            that(System.nanoTime() < deadline, "it did not happen in time");
            Thread.sleep(50);
        }
    }

    static Map<String, Object> classic() {
        return Map.of("session.timeout.ms", 20_000, "heartbeat.interval.ms", 300);
    }

    static String newTopic(String name, int partitions) throws Exception {
        String topic = prefix + "-" + name;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        return topic;
    }

    static String newTopic(String name) throws Exception {
        return newTopic(name, 1);
    }

    static KafkaProducer<String, String> producer(Map<String, ?> options) {
        Map<String, Object> all = new HashMap<>(Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap, "linger.ms", 0));
        all.putAll(options);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Map<String, ?> options) {
        Map<String, Object> all = new HashMap<>(Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", false));
        all.putAll(options);
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    static void send(String topic, Map<String, ?> options, String... values) throws Exception {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (String value : values) {
            records.add(new ProducerRecord<>(topic, 0, null, value));
        }
        sendAll(options, records);
    }

    static void sendAll(Map<String, ?> options, Collection<ProducerRecord<String, String>> records) throws Exception {
        try (KafkaProducer<String, String> producer = producer(options)) {
            List<java.util.concurrent.Future<RecordMetadata>> answers = new ArrayList<>();
            for (ProducerRecord<String, String> each : records) {
                answers.add(producer.send(each));
            }
            for (java.util.concurrent.Future<RecordMetadata> answer : answers) {
                answer.get(SECONDS * 3 / 5, TimeUnit.SECONDS);
            }
        }
    }

    static List<ConsumerRecord<String, String>> read(String topic, int count, long start, Map<String, ?> options) {
        try (KafkaConsumer<String, String> consumer = consumer(options)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, start);
            return poll(consumer, count);
        }
    }

    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS * 3 / 5);
        while (found.size() < count) {
            that(System.nanoTime() < deadline, found.size() + " of " + count + " records came");
            ConsumerCalls.poll(consumer, 200).forEach(found::add);
        }
        return found;
    }

    static List<String> values(List<ConsumerRecord<String, String>> records) {
        List<String> found = new ArrayList<>();
        records.forEach(each -> found.add(each.value()));
        return found;
    }

    static void roundTrip(String name, Map<String, ?> options) throws Exception {
        String topic = newTopic(name);
        List<String> values = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            values.add(String.valueOf(number).repeat(50));
        }
        send(topic, options, values.toArray(String[]::new));
        List<String> found = values(read(topic, 20, 0, Map.of()));
        that(found.equals(values), found);
    }

    private static void bigRecords() throws Exception {
        String topic = newTopic("big-records");
        String value = "x".repeat(800_000);
        send(topic, Map.of(), value, value, value, value);
        that(values(read(topic, 4, 0, Map.of())).equals(Collections.nCopies(4, value)), "they differ");
    }

    private static void headers() throws Exception {
        String topic = newTopic("headers");
        List<Header> some = List.of(
            new RecordHeader("a", new byte[] {1}), new RecordHeader("a", new byte[0]), new RecordHeader("b", (byte[]) null));
        sendAll(Map.of(), List.of(new ProducerRecord<String, String>(topic, 0, null, null, "v", some)));
        List<Header> found = List.of(read(topic, 1, 0, Map.of()).get(0).headers().toArray());
        that(found.equals(some), found);
    }

    private static void nulls() throws Exception {
        String topic = newTopic("nulls");
        sendAll(Map.of(), List.of(
            new ProducerRecord<>(topic, 0, "k", null), new ProducerRecord<>(topic, 0, "k", ""),
            new ProducerRecord<>(topic, 0, null, "v"), new ProducerRecord<>(topic, 0, "", "v")));
        List<String> found = new ArrayList<>();
        read(topic, 4, 0, Map.of()).forEach(each -> found.add(each.key() + "=" + each.value()));
        that(found.equals(List.of("k=null", "k=", "null=v", "=v")), found);
    }

    static KafkaProducer<String, String> transactional(String name) {
        KafkaProducer<String, String> producer = producer(Map.of("transactional.id", prefix + "-" + name));
        producer.initTransactions();
        return producer;
    }

    private static void transactionCommit() throws Exception {
        String topic = newTopic("transaction-commit");
        try (KafkaProducer<String, String> producer = transactional("commit")) {
            for (String value : List.of("1", "2")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value));
                producer.commitTransaction();
            }
        }
        List<String> found = values(read(topic, 2, 0, Map.of("isolation.level", "read_committed")));
        that(found.equals(List.of("1", "2")), found);
    }

    private static void transactionAbort() throws Exception {
        String topic = newTopic("transaction-abort");
        try (KafkaProducer<String, String> producer = transactional("abort")) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "aborted")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "committed"));
            producer.commitTransaction();
        }
        List<String> found = values(read(topic, 1, 0, Map.of("isolation.level", "read_committed")));
        that(found.equals(List.of("committed")), found);
        found = values(read(topic, 2, 0, Map.of()));
        that(found.equals(List.of("aborted", "committed")), found);
    }

    private static void transactionOffsets() throws Exception {
        String topic = newTopic("transaction-offsets");
        TopicPartition partition = new TopicPartition(topic, 0);
        send(topic, Map.of(), "1");
        Map<String, Object> options = new HashMap<>(classic());
        options.put("group.id", prefix + "-transaction-offsets");
        try (KafkaConsumer<String, String> consumer = consumer(options);
            KafkaProducer<String, String> producer = transactional("offsets")) {
            consumer.subscribe(List.of(topic));
            poll(consumer, 1);
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "v"));
            AdminCalls.sendOffsets(producer, Map.of(partition, new OffsetAndMetadata(1)), consumer, prefix + "-transaction-offsets");
            producer.commitTransaction();
            // Elderly versions do not ask whether what they are answered is stable yet.
            eventually(() -> {
                OffsetAndMetadata found = ConsumerCalls.committed(consumer, partition);
                return found != null && found.offset() == 1;
            });
        }
    }

    private static void earliest() throws Exception {
        String topic = newTopic("earliest");
        send(topic, Map.of(), "1", "2");
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            that(values(poll(consumer, 2)).equals(List.of("1", "2")), "not read");
            that(consumer.beginningOffsets(List.of(partition)).get(partition) == 0, "its beginning is not 0");
            that(consumer.endOffsets(List.of(partition)).get(partition) == 2, "its end is not 2");
        }
    }

    private static void latest() throws Exception {
        String topic = newTopic("latest");
        send(topic, Map.of(), "1", "2");
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("auto.offset.reset", "latest"))) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            that(consumer.position(partition) == 2, "it does not start at the end");
            send(topic, Map.of(), "3");
            that(values(poll(consumer, 1)).equals(List.of("3")), "something else came");
        }
    }

    private static void timestamp() throws Exception {
        String topic = newTopic("timestamp");
        for (long time : List.of(1_000_000L, 2_000_000L, 3_000_000L)) {
            sendAll(Map.of(), List.of(new ProducerRecord<>(topic, 0, time, null, "v")));
        }
        try (KafkaConsumer<String, String> consumer = consumer(Map.of())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            that(consumer.offsetsForTimes(Map.of(partition, 1_000_001L)).get(partition).offset() == 1, "another offset");
            that(consumer.offsetsForTimes(Map.of(partition, 3_000_001L)).get(partition) == null, "an offset");
        }
    }

    private static void seek() throws Exception {
        String topic = newTopic("seek");
        send(topic, Map.of(), "0", "1", "2", "3", "4");
        that(values(read(topic, 2, 3, Map.of())).equals(List.of("3", "4")), "others came");
        that(read(topic, 5, 99, Map.of()).get(0).offset() == 0, "out of range is not from the earliest one on");
    }

    private static void groupResume() throws Exception {
        String topic = newTopic("group-resume");
        send(topic, Map.of(), "1", "2", "3");
        Map<String, Object> options = new HashMap<>(classic());
        options.put("group.id", prefix + "-group-resume");
        options.put("max.poll.records", 1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(options)) {
            consumer.subscribe(List.of(topic));
            that(values(poll(consumer, 1)).equals(List.of("1")), "another one came");
            consumer.commitSync();
            that(ConsumerCalls.committed(consumer, partition).offset() == 1, "not committed");
        }
        try (KafkaConsumer<String, String> consumer = consumer(options)) {
            consumer.subscribe(List.of(topic));
            that(values(poll(consumer, 2)).equals(List.of("2", "3")), "others came");
        }
    }

    static boolean holds(KafkaConsumer<String, String> consumer, int partitions) {
        ConsumerCalls.poll(consumer, 100);
        return consumer.assignment().size() == partitions;
    }

    static void rebalance(String name, Map<String, Object> kind) throws Exception {
        String topic = newTopic(name, 4);
        Map<String, Object> options = new HashMap<>(kind);
        options.put("group.id", prefix + "-" + name);
        Member first = new Member(topic, options);
        eventually(() -> first.holds(4));
        Member second = new Member(topic, options);
        eventually(() -> first.holds(2) && second.holds(2));
        second.leave();
        eventually(() -> first.holds(4));
        first.leave();
    }

    /** A member of a group with a thread of its own, since elderly versions wait for a rebalance within poll(). */
    private static final class Member extends Thread {
        private final String topic;
        private final Map<String, Object> options;
        private volatile boolean over;
        private volatile int partitions;
        private volatile RuntimeException failure;

        Member(String topic, Map<String, Object> options) {
            this.topic = topic;
            this.options = options;
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            try (KafkaConsumer<String, String> consumer = consumer(options)) {
                consumer.subscribe(List.of(topic));
                while (!over) {
                    ConsumerCalls.poll(consumer, 100);
                    partitions = consumer.assignment().size();
                }
            } catch (RuntimeException error) {
                failure = error;
            }
        }

        boolean holds(int count) {
            if (failure != null) {
                throw failure;
            }
            return partitions == count;
        }

        void leave() throws InterruptedException {
            over = true;
            join();
        }
    }
}
