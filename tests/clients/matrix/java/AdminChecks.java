import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.config.ConfigResource;

/** What every version of the admin client has. */
final class AdminChecks {
    private AdminChecks() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("list-topics", () -> {
            String topic = Matrix.newTopic("list-topics");
            Matrix.that(admin().listTopics().names().get().contains(topic), "it is not there");
        });
        checks.put("create-partitions", () -> {
            String topic = Matrix.newTopic("create-partitions");
            admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            eventually(() -> AdminCalls.topics(topic), found -> found.get(topic).partitions().size() == 3);
        });
        checks.put("delete-records", () -> {
            String topic = Matrix.newTopic("delete-records");
            Matrix.send(topic, Map.of(), "1", "2", "3");
            Map<TopicPartition, RecordsToDelete> asked = Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(2));
            long low = admin().deleteRecords(asked).lowWatermarks().get(new TopicPartition(topic, 0)).get().lowWatermark();
            Matrix.that(low == 2, low);
        });
        checks.put("log-dirs", () -> {
            String topic = Matrix.newTopic("log-dirs");
            eventually(() -> AdminCalls.logDirs(brokers()), found -> found.toString().contains(topic));
        });
        checks.put("replica-log-dirs", () -> {
            String topic = Matrix.newTopic("replica-log-dirs");
            int broker = brokers().get(0);
            String folder = AdminCalls.logDirs(brokers()).get().get(broker).keySet().iterator().next();
            admin().alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, broker), folder)).all().get();
        });
        checks.put("cluster", () -> {
            Matrix.that(!admin().describeCluster().clusterId().get().isEmpty(), "it has no id");
            Matrix.that(admin().describeCluster().controller().get() != null, "it has no controller");
        });
        checks.put("delete-topic", () -> {
            String topic = Matrix.newTopic("delete-topic");
            admin().deleteTopics(List.of(topic)).all().get();
            eventually(() -> admin().listTopics().names(), names -> !names.contains(topic));
        });
    }

    static AdminClient admin() {
        return Matrix.admin;
    }

    static List<Integer> brokers() throws Exception {
        List<Integer> found = new ArrayList<>();
        admin().describeCluster().nodes().get().forEach(node -> found.add(node.id()));
        return found;
    }

    interface Condition<T> {
        boolean holds(T value) throws Exception;
    }

    interface Asked<T> {
        KafkaFuture<T> get() throws Exception;
    }

    static <T> void eventually(Asked<T> asked, Condition<T> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Matrix.SECONDS * 3 / 5);
        for (T found = asked.get().get(); !condition.holds(found); found = asked.get().get()) {
            Matrix.that(System.nanoTime() < deadline, "it did not happen in time, but " + found);
            Thread.sleep(50);
        }
    }

    static String config(ConfigResource resource, String name) throws Exception {
        ConfigEntry found = admin().describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return found == null ? null : found.value();
    }

    /** Find the binding, delete it and find it no more. */
    static void hasAcls(AclBinding binding) throws Exception {
        eventually(() -> admin().describeAcls(binding.toFilter()).values(), found -> List.of(binding).equals(List.copyOf(found)));
        Collection<AclBinding> deleted = admin().deleteAcls(List.of(binding.toFilter())).all().get();
        Matrix.that(List.of(binding).equals(List.copyOf(deleted)), deleted);
        eventually(() -> admin().describeAcls(binding.toFilter()).values(), Collection::isEmpty);
    }
}
