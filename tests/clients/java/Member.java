import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a consumer group, driven by lines of JSON; group_members.py says what they hold.
 *
 * <p>The eager strategy is the RangeAssignor, the cooperative one the CooperativeStickyAssignor; with "consumer" the
 * coordinator assigns (KIP-848), and says how often it wants to be heard from.
 */
public final class Member {
    private static final Duration POLL = Duration.ofMillis(50);

    private final Queue<String> commands = new ConcurrentLinkedQueue<>();
    private final KafkaConsumer<String, String> consumer;

    private Member(Map<String, Object> options) {
        consumer = new KafkaConsumer<>(properties(options), new StringDeserializer(), new StringDeserializer());
        List<String> topics = new ArrayList<>();
        ((List<?>) options.get("topics")).forEach(topic -> topics.add((String) topic));
        consumer.subscribe(topics, new Rebalances());
    }

    /** Polls until it is told to close, or until standard input ends. */
    public static void main(String[] arguments) {
        Member member = new Member(Json.parseObject(arguments[0]));
        Thread reader = new Thread(member::readCommands);
        reader.setDaemon(true);
        reader.start();
        Json.event("ready");
        member.run();
        System.exit(0);
    }

    private static Properties properties(Map<String, Object> options) {
        boolean cooperative = options.get("strategy").equals("cooperative");
        boolean assigned = options.get("strategy").equals("consumer");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap"));
        properties.put("group.id", options.get("group"));
        properties.put("group.protocol", assigned ? "consumer" : "classic");
        properties.put("client.id", options.get("client_id"));
        properties.put("enable.auto.commit", options.get("auto_commit").toString());
        properties.put("auto.commit.interval.ms", options.get("auto_commit_interval_ms").toString());
        properties.put("default.api.timeout.ms", "120000");
        properties.put("auto.offset.reset", "earliest");
        if (!assigned) {
            properties.put("session.timeout.ms", options.get("session_timeout_ms").toString());
            properties.put("heartbeat.interval.ms", options.get("heartbeat_interval_ms").toString());
            properties.put(
                    "partition.assignment.strategy",
                    (cooperative ? CooperativeStickyAssignor.class : RangeAssignor.class).getName());
        }
        if (options.get("instance_id") != null) {
            properties.put("group.instance.id", options.get("instance_id"));
        }
        if (options.get("rack") != null) {
            properties.put("client.rack", options.get("rack"));
        }
        return properties;
    }

    private void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line);
            }
        } catch (IOException broken) {
            // The same as the end of the input.
        }
        commands.add("{\"do\":\"close\"}");
    }

    private void run() {
        while (true) {
            for (String line = commands.poll(); line != null; line = commands.poll()) {
                Map<String, Object> command = Json.parseObject(line);
                switch ((String) command.get("do")) {
                    case "commit" -> commit((List<?>) command.get("offsets"));
                    case "offsets" -> tellOffsets((List<?>) command.get("partitions"));
                    case "close" -> {
                        consumer.close();
                        Json.event("closed");
                        return;
                    }
                    default -> Json.event("error", "text", "no such command: " + line);
                }
            }
            poll();
        }
    }

    private void poll() {
        try {
            for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                Json.event(
                        "record",
                        "topic", each.topic(),
                        "partition", each.partition(),
                        "offset", each.offset(),
                        "value", each.value());
            }
        } catch (KafkaException failure) {
            Json.event("error", "text", failure);
        }
    }

    private void commit(List<?> rows) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Object each : rows) {
            List<?> row = (List<?>) each;
            offsets.put(partition(row), new OffsetAndMetadata((Long) row.get(2), (String) row.get(3)));
        }
        try {
            consumer.commitSync(offsets);
            Json.event("committed", "error", null);
        } catch (KafkaException failure) {
            Json.event("committed", "error", failure);
        }
    }

    private void tellOffsets(List<?> rows) {
        Set<TopicPartition> partitions = new HashSet<>();
        rows.forEach(row -> partitions.add(partition((List<?>) row)));
        try {
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(partitions);
            List<List<Object>> told = new ArrayList<>();
            for (TopicPartition each : sorted(partitions)) {
                OffsetAndMetadata found = committed.get(each);
                Long offset = found == null ? null : found.offset();
                String metadata = found == null ? null : found.metadata();
                told.add(Arrays.asList(each.topic(), each.partition(), offset, metadata));
            }
            Json.event("offsets", "offsets", told);
        } catch (KafkaException failure) {
            Json.event("error", "text", failure);
        }
    }

    private static TopicPartition partition(List<?> row) {
        return new TopicPartition((String) row.get(0), ((Long) row.get(1)).intValue());
    }

    private static List<TopicPartition> sorted(Collection<TopicPartition> partitions) {
        List<TopicPartition> sorted = new ArrayList<>(partitions);
        sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparingInt(TopicPartition::partition));
        return sorted;
    }

    private static List<List<Object>> rows(Collection<TopicPartition> partitions) {
        List<List<Object>> rows = new ArrayList<>();
        sorted(partitions).forEach(each -> rows.add(List.of(each.topic(), each.partition())));
        return rows;
    }

    private final class Rebalances implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            Json.event("assigned", "partitions", rows(consumer.assignment()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
            Json.event("revoked", "partitions", rows(taken));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            Json.event("lost", "partitions", rows(lost));
        }
    }
}
