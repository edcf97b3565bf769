import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Calls of the consumer as they are since 2.4. */
final class ConsumerCalls {
    private ConsumerCalls() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("zstd", () -> Matrix.roundTrip("zstd", Map.of("compression.type", "zstd")));
        checks.put("static-member", ConsumerCalls::staticMember);
        LaterChecks.add(checks);
    }

    static <K, V> ConsumerRecords<K, V> poll(KafkaConsumer<K, V> consumer, long milliseconds) {
        return consumer.poll(Duration.ofMillis(milliseconds));
    }

    static OffsetAndMetadata committed(KafkaConsumer<?, ?> consumer, TopicPartition partition) {
        return consumer.committed(Set.of(partition)).get(partition);
    }

    private static void staticMember() throws Exception {
        String topic = Matrix.newTopic("static-member");
        String group = Matrix.prefix + "-static-member";
        Map<String, Object> options = new HashMap<>(Matrix.classic());
        options.putAll(Map.of("group.id", group, "group.instance.id", "one"));
        for (int time = 0; time < 2; time++) {
            try (KafkaConsumer<String, String> consumer = Matrix.consumer(options)) {
                consumer.subscribe(List.of(topic));
                Matrix.eventually(() -> Matrix.holds(consumer, 1));
            }
        }
        String found = Matrix.admin.describeConsumerGroups(List.of(group)).all().get().toString();
        Matrix.that(found.contains("groupInstanceId=one") || found.contains("Optional[one]"), found);
    }
}
