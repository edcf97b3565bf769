import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Flink jobs from a topic to another one, in this JVM, a cluster for each. Arguments: bootstrap and prefix. */
final class FlinkMatrix {
    private static final int PARTITIONS = 3;
    private static final int RECORDS = 600;
    /** For each check; a cluster has to start first. */
    private static final long SECONDS = Long.parseLong(System.getenv().getOrDefault("CHECK_SECONDS", "300"));

    private interface Check {
        void run() throws Exception;
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static String bootstrap;
    private static String prefix;
    private static Admin admin;

    private FlinkMatrix() {}

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        prefix = arguments[1];
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("flink-bounded", FlinkMatrix::bounded);
        checks.put("flink-unbounded", FlinkMatrix::unbounded);
        checks.put("flink-recovery", () -> recovery("recovery", TransactionNamingStrategy.INCREMENTING));
        checks.put("flink-pooling", () -> recovery("pooling", TransactionNamingStrategy.POOLING));
        String only = System.getenv().getOrDefault("ONLY", "");
        if (!only.isEmpty()) {
            checks.keySet().retainAll(Arrays.asList(only.split(" ")));
        }
        System.out.println("{\"checks\": [\"" + String.join("\", \"", checks.keySet()) + "\"]}");
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
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
        Runtime.getRuntime().halt(0); // jobs that are left behind would hold the end up
    }

    private static String attempt(Check check) {
        try {
            check.run();
            return "";
        } catch (Throwable error) {
            if (System.getenv("TRACEBACKS") != null) {
                error.printStackTrace();
            }
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.toString();
        }
    }

    private static String quoted(String text) {
        return text.replace("\\", "/").replace('"', '\'').replace('\n', ' ').replace('\t', ' ');
    }

    private static void eventually(Condition condition, Object otherwise) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS / 2);
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(otherwise);
            }
            Thread.sleep(50);
        }
    }

    /** To the end that the topic has when the job starts. */
    private static void bounded() throws Exception {
        List<String> expected = filled("bounded", 0, RECORDS);
        StreamExecutionEnvironment job = job("bounded", sink("bounded", TransactionNamingStrategy.DEFAULT), true, false);
        job.execute();
        found("bounded", expected);
    }

    /** It commits the group's offsets, finds a new partition, and goes on from the offsets when it starts again. */
    private static void unbounded() throws Exception {
        KafkaSink<String> sink = sink("unbounded", TransactionNamingStrategy.DEFAULT);
        List<String> expected = filled("unbounded", 0, RECORDS);
        JobClient first = job("unbounded", sink, false, false).executeAsync();
        eventually(() -> committed("unbounded", PARTITIONS) == RECORDS, "the offsets were not committed");
        admin.createPartitions(Map.of(topic("unbounded"), NewPartitions.increaseTo(PARTITIONS + 1))).all().get();
        expected.addAll(filled("unbounded", RECORDS, RECORDS + 40));
        eventually(() -> committed("unbounded", PARTITIONS + 1) == RECORDS + 40, "the new partition was not found");
        first.cancel().get();
        expected.addAll(filled("unbounded", RECORDS + 40, RECORDS + 80));
        JobClient second = job("unbounded", sink, false, false).executeAsync();
        eventually(() -> committed("unbounded", PARTITIONS + 1) == RECORDS + 80, "it did not go on");
        found("unbounded", expected);
        second.cancel().get();
    }

    /** A failure after a checkpoint aborts what came after that, and nothing is there twice. */
    private static void recovery(String name, TransactionNamingStrategy naming) throws Exception {
        List<String> expected = filled(name, 0, RECORDS);
        FailsOnce.FAILURES.set(0);
        job(name, sink(name, naming), true, true).execute();
        if (FailsOnce.FAILURES.get() != 1) {
            throw new AssertionError("it did not fail");
        }
        found(name, expected);
    }

    private static String topic(String name) {
        return prefix + "-" + name;
    }

    private static String copy(String name) {
        return topic(name) + "-copy";
    }

    /** Write numbers to a topic, which is made if it is not there, and return them. */
    private static List<String> filled(String name, int from, int to) throws Exception {
        if (from == 0) {
            admin.createTopics(List.of(
                new NewTopic(topic(name), PARTITIONS, (short) 1), new NewTopic(copy(name), PARTITIONS, (short) 1))).all().get();
        }
        int partitions = from == 0 ? PARTITIONS : PARTITIONS + 1;
        List<String> values = IntStream.range(from, to).mapToObj(String::valueOf).collect(Collectors.toCollection(ArrayList::new));
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic(name), Integer.parseInt(value) % partitions, value, value));
            }
            producer.flush();
        }
        return values;
    }

    private static KafkaSink<String> sink(String name, TransactionNamingStrategy naming) {
        return KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(topic(name))
            .setTransactionNamingStrategy(naming)
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(copy(name)).setValueSerializationSchema(new SimpleStringSchema()).build())
            .build();
    }

    private static StreamExecutionEnvironment job(String name, KafkaSink<String> sink, boolean bounded, boolean fails) {
        Configuration configuration = Configuration.fromMap(Map.of(
            "jobmanager.bind-host", "127.0.0.1", "taskmanager.bind-host", "127.0.0.1", "taskmanager.host", "127.0.0.1",
            "rest.bind-address", "127.0.0.1", "rest.address", "127.0.0.1", "rest.bind-port", "0",
            "restart-strategy.type", "fixed-delay", "restart-strategy.fixed-delay.delay", "100 ms"));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        environment.enableCheckpointing(200);
        KafkaSourceBuilder<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(bootstrap)
            .setTopics(topic(name))
            .setGroupId(topic(name))
            .setProperty("partition.discovery.interval.ms", "300")
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            .setValueOnlyDeserializer(new SimpleStringSchema());
        if (bounded) {
            source.setStartingOffsets(OffsetsInitializer.earliest()).setBounded(OffsetsInitializer.latest());
        }
        environment.fromSource(source.build(), WatermarkStrategy.noWatermarks(), "source")
            .map(fails ? new FailsOnce() : new Unchanged()).sinkTo(sink);
        return environment;
    }

    /** How far the group is, all partitions together. */
    private static long committed(String name, int partitions) throws Exception {
        return admin.listConsumerGroupOffsets(topic(name)).partitionsToOffsetAndMetadata().get().values().stream()
            .mapToLong(each -> each.offset()).sum();
    }

    /** Read the copy, and more than that: nothing may follow. */
    private static void found(String name, List<String> expected) throws Exception {
        Map<String, Object> options = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = IntStream.range(0, PARTITIONS).mapToObj(each -> new TopicPartition(copy(name), each)).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            eventually(() -> {
                consumer.poll(Duration.ofMillis(100)).forEach(each -> found.add(each.value()));
                Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
                return found.size() >= expected.size()
                    && partitions.stream().allMatch(each -> consumer.position(each) >= ends.get(each));
            }, found.size() + " of " + expected.size() + " records came");
        }
        List<Integer> numbers = found.stream().map(Integer::valueOf).sorted().toList();
        List<Integer> wanted = expected.stream().map(Integer::valueOf).sorted().toList();
        if (!numbers.equals(wanted)) {
            long twice = numbers.stream().filter(each -> Collections.frequency(numbers, each) > 1).distinct().count();
            throw new AssertionError(found.size() + " records instead of " + expected.size() + ", " + twice + " more than once");
        }
    }
}
