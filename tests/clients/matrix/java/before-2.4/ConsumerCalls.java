import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.Resource;
import org.apache.kafka.common.resource.ResourceType;

/** Calls of the consumer as they were before 2.0, and ACLs without kinds of patterns. */
final class ConsumerCalls {
    private ConsumerCalls() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("acls", ConsumerCalls::acls);
    }

    static <K, V> ConsumerRecords<K, V> poll(KafkaConsumer<K, V> consumer, long milliseconds) {
        return consumer.poll(milliseconds);
    }

    static OffsetAndMetadata committed(KafkaConsumer<?, ?> consumer, TopicPartition partition) {
        return consumer.committed(partition);
    }

    private static void acls() throws Exception {
        AclBinding binding = new AclBinding(
            new Resource(ResourceType.TOPIC, Matrix.prefix + "-acls"),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AdminChecks.admin().createAcls(List.of(binding)).all().get();
        AdminChecks.hasAcls(binding);
    }
}
