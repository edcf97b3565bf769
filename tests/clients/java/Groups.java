import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsResult;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListConsumerGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * The admin client looks at groups and changes them, while they have members and when they have none.
 *
 * <p>Arguments: BOOTSTRAP PREFIX, where PREFIX is new in each run. It prints its `Answers`. Versions 4.x have newer
 * names for the states of groups, which 3.9 does not know.
 */
@SuppressWarnings({"deprecation", "removal"})
public final class Groups implements AutoCloseable {
    private final String bootstrap;
    private final String prefix;
    private final Answers answers;
    private final Admin admin;
    private final TopicPartition left;
    private final TopicPartition right;
    private final TopicPartition missing;

    private Groups(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        answers = new Answers(prefix);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        admin = Admin.create(properties);
        left = new TopicPartition(prefix + "topic", 0);
        right = new TopicPartition(prefix + "topic", 1);
        missing = new TopicPartition(prefix + "topic", 9);
    }

    /** Asks everything once. */
    public static void main(String[] arguments) throws Exception {
        try (Groups run = new Groups(arguments[0], arguments[1])) {
            run.admin.createTopics(List.of(new NewTopic(run.left.topic(), 2, (short) 1))).all().get();
            run.withStaticMember();
            run.withDynamicMember();
            run.withoutMembers();
        }
    }

    @Override
    public void close() {
        admin.close();
    }

    private void withStaticMember() {
        String group = prefix + "static";
        try (KafkaConsumer<String, String> consumer = join(group, "instance", "RangeAssignor")) {
            answers.note("described", () -> description(group));
            answers.note("operations", () -> operations(group));
            answers.note("listed with a member", () -> listed(new ListConsumerGroupsOptions()));
            answers.note("no offsets yet", () -> committed(group));
            consumer.commitSync(Map.of(
                    left, new OffsetAndMetadata(0, Optional.of(0), "the start"),
                    right, new OffsetAndMetadata(5)));
            answers.note("committed", () -> committed(group));
            answers.note("some committed", () -> committed(group, right, missing));
            answers.note("alter with members", altered(group, left, 7));
            answers.note("delete what is subscribed", deleted(group, left));
            answers.note("delete the group with members", ended(() -> admin.deleteConsumerGroups(List.of(group)).all()));
            answers.note("remove a stranger", removed(group, "stranger"));
            answers.note("remove the member", removed(group, "instance"));
        }
        answers.note("described when empty", () -> description(group));
        answers.note("committed is still there", () -> committed(group));
        answers.note("alter when empty", altered(group, left, 7));
        answers.note("alter what is missing", altered(group, missing, 7));
        answers.note("delete offsets", deleted(group, left));
        answers.note("delete a missing offset", deleted(group, missing));
        answers.note("committed at last", () -> committed(group));
        answers.note("delete the group", ended(() -> admin.deleteConsumerGroups(List.of(group)).all()));
        answers.note("delete it again", ended(() -> admin.deleteConsumerGroups(List.of(group)).all()));
        answers.note("committed of the deleted", () -> committed(group));
        answers.note("delete offsets of the deleted", deleted(group, left));
    }

    private void withDynamicMember() {
        String group = prefix + "dynamic";
        try (KafkaConsumer<String, String> consumer = join(group, null, "CooperativeStickyAssignor")) {
            answers.note("described with a dynamic member", () -> description(group));
            consumer.commitSync(Map.of(left, new OffsetAndMetadata(3, "three")));
            answers.note(
                    "remove all",
                    ended(() -> admin.removeMembersFromConsumerGroup(
                                    group, new RemoveMembersFromConsumerGroupOptions())
                            .all()));
            answers.note(
                    "commit of the removed",
                    ended(() -> {
                        consumer.commitSync(Map.of(left, new OffsetAndMetadata(4)));
                        return KafkaFuture.completedFuture(null);
                    }));
        }
        answers.note("described when all are removed", () -> description(group));
        answers.note("committed before", () -> committed(group));
    }

    private void withoutMembers() {
        String group = prefix + "simple";
        answers.note("committed of none", () -> committed(group));
        answers.note("remove from none", removed(group, "instance"));
        answers.note("alter makes a group", altered(group, right, 2));
        answers.note("described without protocol", () -> description(group));
        answers.note("listed", () -> listed(new ListConsumerGroupsOptions()));
        answers.note(
                "stable", () -> listed(new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.STABLE))));
        answers.note(
                "empty", () -> listed(new ListConsumerGroupsOptions().inStates(Set.of(ConsumerGroupState.EMPTY))));
        answers.note("classic", () -> listed(new ListConsumerGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))));
        answers.note("of several groups", () -> {
            var found = admin.listConsumerGroupOffsets(Map.of(
                    group, new ListConsumerGroupOffsetsSpec(),
                    prefix + "dynamic", new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(left, right)),
                    prefix + "nobody", new ListConsumerGroupOffsetsSpec()));
            Map<String, Object> offsets = new TreeMap<>();
            for (Map.Entry<String, Map<TopicPartition, OffsetAndMetadata>> each : found.all().get().entrySet()) {
                offsets.put(each.getKey(), rows(each.getValue()));
            }
            return offsets;
        });
        answers.note(
                "delete several",
                () -> {
                    var result = admin.deleteConsumerGroups(List.of(group, prefix + "nobody")).deletedGroups();
                    Map<String, Object> outcomes = new TreeMap<>();
                    for (Map.Entry<String, KafkaFuture<Void>> each : result.entrySet()) {
                        outcomes.put(each.getKey(), outcome(each.getValue()));
                    }
                    return outcomes;
                });
    }

    private Object description(String group) throws Exception {
        ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        List<Object> members = new ArrayList<>();
        for (MemberDescription each : found.members()) {
            members.add(Answers.object(
                    "client", each.clientId(),
                    "host", each.host(),
                    "instance", each.groupInstanceId().orElse(null),
                    "begins with", each.consumerId().substring(0, each.consumerId().length() - 36),
                    "holds", Answers.sorted(each.assignment().topicPartitions())));
        }
        String address = found.coordinator().host() + ":" + found.coordinator().port();
        return Answers.object(
                "group", found.groupId(),
                "is simple", found.isSimpleConsumerGroup(),
                "state", found.state(),
                "type", found.type(),
                "assignor", found.partitionAssignor(),
                "is coordinated where we ask", address.equals(bootstrap),
                "members", members);
    }

    private Object listed(ListConsumerGroupsOptions options) throws Exception {
        List<ConsumerGroupListing> ours = new ArrayList<>();
        for (ConsumerGroupListing each : admin.listConsumerGroups(options).all().get()) {
            if (each.groupId().startsWith(prefix)) {
                ours.add(each);
            }
        }
        return Answers.each(
                ours,
                each -> List.of(each.groupId(), each.isSimpleConsumerGroup(), each.state().get(), each.type().get()));
    }

    private Object operations(String group) throws Exception {
        var options = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        var found = admin.describeConsumerGroups(List.of(group), options).describedGroups().get(group).get();
        return Answers.sorted(found.authorizedOperations());
    }

    private Object committed(String group) throws Exception {
        return rows(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    private Object committed(String group, TopicPartition... partitions) throws Exception {
        var spec = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(partitions));
        return rows(admin.listConsumerGroupOffsets(Map.of(group, spec)).partitionsToOffsetAndMetadata(group).get());
    }

    private static Object rows(Map<TopicPartition, OffsetAndMetadata> offsets) {
        return Answers.each(offsets.keySet(), partition -> {
            OffsetAndMetadata found = offsets.get(partition);
            return found == null
                    ? List.of(partition)
                    : List.of(partition, found.offset(), found.metadata(), found.leaderEpoch().orElse(-1));
        });
    }

    private Callable<Object> altered(String group, TopicPartition partition, long offset) {
        return ended(() -> {
            AlterConsumerGroupOffsetsResult result =
                    admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(offset, "altered")));
            return result.partitionResult(partition);
        });
    }

    private Callable<Object> deleted(String group, TopicPartition partition) {
        return ended(() -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).partitionResult(partition));
    }

    private Callable<Object> removed(String group, String instance) {
        MemberToRemove member = new MemberToRemove(instance);
        return ended(() -> admin.removeMembersFromConsumerGroup(
                        group, new RemoveMembersFromConsumerGroupOptions(List.of(member)))
                .memberResult(member));
    }

    private static Callable<Object> ended(Callable<KafkaFuture<Void>> question) {
        return () -> {
            question.call().get();
            return "done";
        };
    }

    private static Object outcome(KafkaFuture<Void> future) {
        try {
            future.get();
            return "done";
        } catch (Exception failure) {
            return Answers.nameOf(failure);
        }
    }

    /** A member that holds both partitions. */
    private KafkaConsumer<String, String> join(String group, String instance, String assignor) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("group.protocol", "classic");
        properties.put("client.id", "watched");
        properties.put("enable.auto.commit", "false");
        properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        if (instance != null) {
            properties.put("group.instance.id", instance);
        }
        var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(left.topic()));
        while (consumer.assignment().size() < 2) {
            consumer.poll(Duration.ofMillis(100));
        }
        return consumer;
    }
}
