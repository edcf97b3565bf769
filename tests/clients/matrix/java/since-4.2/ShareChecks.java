import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Of share groups. */
final class ShareChecks {
    private ShareChecks() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("share-group", ShareChecks::shareGroup);
    }

    private static void shareGroup() throws Exception {
        String topic = Matrix.newTopic("share-group");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, Matrix.prefix + "-share-group");
        ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
        Collection<AlterConfigOp> change = List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET));
        Matrix.admin.incrementalAlterConfigs(Map.of(group, change)).all().get();
        Matrix.send(topic, Map.of(), "accept", "release", "reject");
        Map<String, Object> options = Map.of(
            "bootstrap.servers", Matrix.bootstrap, "group.id", group.name(), "share.acknowledgement.mode", "explicit");
        List<String> found = new ArrayList<>();
        try (KafkaShareConsumer<String, String> consumer =
            new KafkaShareConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Matrix.SECONDS * 3 / 5);
            while (found.size() < 4) {
                Matrix.that(System.nanoTime() < deadline, found);
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    short count = each.deliveryCount().orElseThrow();
                    found.add(each.value() + " " + count);
                    AcknowledgeType type = AcknowledgeType.valueOf(each.value().toUpperCase(java.util.Locale.ROOT));
                    consumer.acknowledge(each, count == 1 ? type : AcknowledgeType.ACCEPT);
                }
                Matrix.that(consumer.commitSync().values().stream().allMatch(java.util.Optional::isEmpty), "refused");
            }
        }
        found.sort(null);
        Matrix.that(found.equals(List.of("accept 1", "reject 1", "release 1", "release 2")), found);
    }
}
