import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.DelegationTokenDisabledException;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.UnsupportedByAuthenticationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** What came with releases 2.0 to 2.4. */
final class LaterChecks {
    private LaterChecks() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("incremental-configs", LaterChecks::incrementalConfigs);
        checks.put("acls", LaterChecks::acls);
        checks.put("reassignments", () -> {
            TopicPartition partition = new TopicPartition(Matrix.newTopic("reassignments"), 0);
            AdminChecks.admin().alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(AdminChecks.brokers().subList(0, 1)))))
                .all().get();
            AdminChecks.eventually(() -> AdminChecks.admin().listPartitionReassignments(Set.of(partition)).reassignments(), Map::isEmpty);
        });
        checks.put("elect-leaders", () -> {
            TopicPartition partition = new TopicPartition(Matrix.newTopic("elect-leaders"), 0);
            Optional<Throwable> found = AdminChecks.admin().electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition);
            Matrix.that(found.isPresent() && found.get() instanceof ElectionNotNeededException, found);
        });
        checks.put("delegation-tokens", () -> refused(
            AdminChecks.admin().createDelegationToken().delegationToken(), UnsupportedByAuthenticationException.class, DelegationTokenDisabledException.class));
        groups(checks);
    }

    private static void groups(Map<String, Matrix.Check> checks) {
        checks.put("list-groups", () -> {
            String group = group("list-groups");
            Matrix.that(AdminChecks.admin().listConsumerGroups().all().get().toString().contains(group), "it is not there");
        });
        checks.put("describe-groups", () -> {
            String group = group("describe-groups");
            String found = AdminChecks.admin().describeConsumerGroups(List.of(group)).all().get().get(group).toString();
            Matrix.that(found.toLowerCase(java.util.Locale.ROOT).contains("state=empty"), found);
        });
        checks.put("list-group-offsets", () -> {
            String group = group("list-group-offsets");
            Matrix.that(committed(group, "list-group-offsets") == 1, "not 1");
        });
        checks.put("delete-group-offsets", () -> {
            String group = group("delete-group-offsets");
            TopicPartition partition = new TopicPartition(Matrix.prefix + "-delete-group-offsets", 0);
            AdminChecks.admin().deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            Matrix.that(committed(group, "delete-group-offsets") == -1, "it is still there");
        });
        checks.put("remove-members", () -> {
            String topic = Matrix.newTopic("remove-members");
            String group = Matrix.prefix + "-remove-members";
            Map<String, Object> options = new HashMap<>(Matrix.classic());
            options.putAll(Map.of("group.id", group, "group.instance.id", "one"));
            try (KafkaConsumer<String, String> consumer = Matrix.consumer(options)) {
                consumer.subscribe(List.of(topic));
                Matrix.eventually(() -> Matrix.holds(consumer, 1));
            }
            AdminChecks.admin().removeMembersFromConsumerGroup(
                group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
            int members = AdminChecks.admin().describeConsumerGroups(List.of(group)).all().get().get(group).members().size();
            Matrix.that(members == 0, members);
        });
        checks.put("delete-groups", () -> {
            String group = group("delete-groups");
            AdminChecks.admin().deleteConsumerGroups(List.of(group)).all().get();
            Matrix.that(!AdminChecks.admin().listConsumerGroups().all().get().toString().contains(group), "it is still there");
        });
    }

    private static void incrementalConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Matrix.newTopic("incremental-configs"));
        alter(topic, "retention.ms", "123456789", AlterConfigOp.OpType.SET);
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        is(topic, "cleanup.policy", List.of("delete,compact"));
        Matrix.that(AdminChecks.config(topic, "retention.ms").equals("123456789"), "another value");
        alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
        alter(topic, "retention.ms", "", AlterConfigOp.OpType.DELETE);
        is(topic, "retention.ms", List.of("604800000", "-1"));
    }

    private static void acls() throws Exception {
        AclBinding binding = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, Matrix.prefix + "-acls", PatternType.PREFIXED),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AdminChecks.admin().createAcls(List.of(binding)).all().get();
        AdminChecks.hasAcls(binding);
    }

    private static void alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType kind) throws Exception {
        Collection<AlterConfigOp> operations = List.of(new AlterConfigOp(new ConfigEntry(name, value), kind));
        AdminChecks.admin().incrementalAlterConfigs(Map.of(resource, operations)).all().get();
    }

    /** A group without members that has committed offset 1 of a topic of its name. */
    static String group(String name) throws Exception {
        String group = Matrix.prefix + "-" + name;
        TopicPartition partition = new TopicPartition(Matrix.newTopic(name), 0);
        try (KafkaConsumer<String, String> consumer = Matrix.consumer(Map.of("group.id", group))) {
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(1)));
        }
        return group;
    }

    static long committed(String group, String name) throws Exception {
        OffsetAndMetadata found = AdminChecks.admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .get(new TopicPartition(Matrix.prefix + "-" + name, 0));
        return found == null ? -1 : found.offset();
    }

    private static void is(ConfigResource resource, String name, List<String> values) throws Exception {
        AdminChecks.eventually(
            () -> AdminChecks.admin().describeConfigs(List.of(resource)).all(),
            found -> values.contains(found.get(resource).get(name).value()));
    }

    @SafeVarargs
    private static void refused(KafkaFuture<?> future, Class<? extends Throwable>... kinds) throws Exception {
        try {
            future.get();
        } catch (ExecutionException refusal) {
            for (Class<? extends Throwable> kind : kinds) {
                if (kind.isInstance(refusal.getCause())) {
                    return;
                }
            }
            throw refusal;
        }
        throw new AssertionError("it was not refused");
    }
}
