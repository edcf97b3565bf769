import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.requests.DescribeLogDirsResponse;

/** Calls of the admin client, and one of the producer, as they were before 2.5 and before 3.1. */
final class AdminCalls {
    private AdminCalls() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("describe-topics", () -> {
            String topic = Matrix.newTopic("describe-topics", 3);
            TopicDescription found = topics(topic).get().get(topic);
            Matrix.that(found.partitions().size() == 3, found);
        });
        checks.put("describe-configs", () -> {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Matrix.newTopic("describe-configs"));
            Matrix.that(AdminChecks.config(topic, "cleanup.policy").equals("delete"), "another value");
        });
        checks.put("alter-configs", AdminCalls::alterConfigs);
    }

    static KafkaFuture<Map<String, TopicDescription>> topics(String topic) {
        return Matrix.admin.describeTopics(List.of(topic)).all();
    }

    static KafkaFuture<Map<Integer, Map<String, DescribeLogDirsResponse.LogDirInfo>>> logDirs(List<Integer> brokers) {
        return Matrix.admin.describeLogDirs(brokers).all();
    }

    static void sendOffsets(
        KafkaProducer<?, ?> producer, Map<TopicPartition, OffsetAndMetadata> offsets, KafkaConsumer<?, ?> consumer, String group) {
        producer.sendOffsetsToTransaction(offsets, group);
    }

    private static void alterConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Matrix.newTopic("alter-configs"));
        Config asked = new Config(List.of(new ConfigEntry("retention.ms", "123456789")));
        Matrix.admin.alterConfigs(Map.of(topic, asked)).all().get();
        AdminChecks.eventually(
            () -> Matrix.admin.describeConfigs(List.of(topic)).all(),
            found -> found.get(topic).get("retention.ms").value().equals("123456789"));
    }
}
