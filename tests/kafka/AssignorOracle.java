import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * Kafka's assignors of the group coordinator, asked line by line: a group in, its assignment out.
 *
 * A line has fields with tabs between them: the assignor's class, "same" or "mixed", the topics (id=partitions, with commas),
 * then each member: its id, its instance id or "-", the ids of its topics (with commas), and what it has
 * (id:partition, with commas). The answer has the members with what each was given, "!" and a message for a failure.
 */
public class AssignorOracle {
    record Member(Optional<String> instance, Set<Uuid> topics, Map<Uuid, Set<Integer>> assigned)
        implements MemberSubscription, MemberAssignment {
        public Optional<String> rackId() { return Optional.empty(); }
        public Optional<String> instanceId() { return instance; }
        public Set<Uuid> subscribedTopicIds() { return topics; }
        public Map<Uuid, Set<Integer>> partitions() { return assigned; }
    }

    record Group(Map<String, Member> members, SubscriptionType subscriptionType) implements GroupSpec {
        public java.util.Collection<String> memberIds() { return members.keySet(); }
        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return members.values().stream().anyMatch(m -> m.assigned.getOrDefault(topic, Set.of()).contains(partition));
        }
        public boolean isPartitionAssignable(Uuid topic, int partition) { return true; } // Kafka 4 asks
        public MemberSubscription memberSubscription(String id) { return members.get(id); }
        public MemberAssignment memberAssignment(String id) { return members.get(id); }
    }

    record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
        public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
    }

    static String[] split(String text, String by) {
        return text.isEmpty() ? new String[0] : text.split(by);
    }

    static PartitionAssignor named(String name) {
        try {
            Class<?> found = Class.forName("org.apache.kafka.coordinator.group.assignor." + name);
            return (PartitionAssignor) found.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static String answer(String[] fields) {
        PartitionAssignor assignor = named(fields[0]);
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String topic : split(fields[2], ",")) {
            String[] parts = topic.split("=");
            counts.put(Uuid.fromString(parts[0]), Integer.valueOf(parts[1]));
        }
        Map<String, Member> members = new HashMap<>();
        for (int at = 3; at < fields.length; at += 4) {
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String topic : split(fields[at + 2], ",")) topics.add(Uuid.fromString(topic));
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            for (String partition : split(fields[at + 3], ",")) {
                String[] parts = partition.split(":");
                Uuid topic = Uuid.fromString(parts[0]);
                assigned.putIfAbsent(topic, new HashSet<>()); // computeIfAbsent would go to the head of its bucket
                assigned.get(topic).add(Integer.valueOf(parts[1]));
            }
            Optional<String> instance = fields[at + 1].equals("-") ? Optional.empty() : Optional.of(fields[at + 1]);
            members.put(fields[at], new Member(instance, topics, Collections.unmodifiableMap(assigned)));
        }
        SubscriptionType type =
            fields[1].equals("same") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment result;
        try {
            result = assignor.assign(new Group(members, type), new Topics(counts));
        } catch (RuntimeException error) {
            return "!" + error;
        }
        List<String> told = new ArrayList<>();
        for (Map.Entry<String, MemberAssignment> each : new TreeMap<>(result.members()).entrySet()) {
            List<String> partitions = new ArrayList<>();
            each.getValue().partitions().forEach((topic, indexes) ->
                new TreeSet<>(indexes).forEach(index -> partitions.add(topic + ":" + index)));
            told.add(each.getKey() + "\t" + String.join(",", partitions));
        }
        return String.join("\t", told);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
            System.out.flush();
        }
    }
}
