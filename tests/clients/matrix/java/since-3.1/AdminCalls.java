import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** Calls of the admin client, and one of the producer, as they are since 3.1. */
final class AdminCalls {
    private AdminCalls() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("consumer-protocol", () -> Matrix.rebalance("consumer-protocol", Map.of("group.protocol", "consumer")));
        NewestChecks.add(checks);
    }

    static KafkaFuture<Map<String, TopicDescription>> topics(String topic) {
        return Matrix.admin.describeTopics(List.of(topic)).allTopicNames();
    }

    static KafkaFuture<Map<Integer, Map<String, LogDirDescription>>> logDirs(List<Integer> brokers) {
        return Matrix.admin.describeLogDirs(brokers).allDescriptions();
    }

    static void sendOffsets(
        KafkaProducer<?, ?> producer, Map<TopicPartition, OffsetAndMetadata> offsets, KafkaConsumer<?, ?> consumer, String group) {
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }
}
