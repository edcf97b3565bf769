import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Kafka's sticky assignor of streams groups, asked line by line: a group in, its assignment out.
 *
 * A line has fields with tabs between them: the number of standbys, the subtopologies (id=tasks, with commas; "!" behind
 * the number for those with state), then each member: its id, its process, its active and its standby tasks
 * (subtopology:partition, with commas), and the offsets that it has told (subtopology:partition:offset). The answer has
 * the members with both kinds of tasks.
 */
public class StickyOracle {
    record Topology(TreeMap<String, Integer> tasks, Set<String> stateful) implements TopologyDescriber {
        public List<String> subtopologies() { return new ArrayList<>(tasks.keySet()); }
        public int maxNumInputPartitions(String subtopology) throws NoSuchElementException { return tasks.get(subtopology); }
        public boolean isStateful(String subtopology) { return stateful.contains(subtopology); }
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new HashMap<>();
        for (String each : text.isEmpty() ? new String[0] : text.split(",")) {
            String[] parts = each.split(":");
            found.computeIfAbsent(parts[0], key -> new HashSet<>()).add(Integer.parseInt(parts[1]));
        }
        return found;
    }

    static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        for (String each : text.isEmpty() ? new String[0] : text.split(",")) {
            String[] parts = each.split(":");
            found.computeIfAbsent(parts[0], key -> new HashMap<>()).put(Integer.parseInt(parts[1]), Long.parseLong(parts[2]));
        }
        return found;
    }

    static String text(Map<String, Set<Integer>> tasks) {
        List<String> found = new ArrayList<>();
        new TreeMap<>(tasks).forEach((name, indexes) -> new TreeSet<>(indexes).forEach(index -> found.add(name + ":" + index)));
        return String.join(",", found);
    }

    static String answer(String[] fields) {
        Topology topology = new Topology(new TreeMap<>(), new HashSet<>());
        for (String each : fields[1].split(",")) {
            String[] parts = each.split("=");
            if (parts[1].endsWith("!")) {
                topology.stateful.add(parts[0]);
            }
            topology.tasks.put(parts[0], Integer.parseInt(parts[1].replace("!", "")));
        }
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (int i = 2; i < fields.length; i += 5) {
            members.put(fields[i], new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), fields[i + 1],
                Map.of(), tasks(fields[i + 2]), tasks(fields[i + 3]), Map.of(), offsets(fields[i + 4]), Map.of()));
        }
        GroupSpecImpl group = new GroupSpecImpl(members, AssignmentConfigsImpl.fromMap(Map.of("num.standby.replicas", fields[0])));
        List<String> found = new ArrayList<>();
        for (Map.Entry<String, MemberAssignment> each : new StickyTaskAssignor().assign(group, topology).members().entrySet()) {
            found.add(each.getKey() + "\t" + text(each.getValue().activeTasks()) + "\t" + text(each.getValue().standbyTasks()));
        }
        return String.join("\t", found);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
            System.out.flush();
        }
    }
}
