// Assigns partitions through Kafka's server-side assignors. A line of the input is a group, its
// fields separated by blanks: the assignor, "alike" or "unlike", topics as number:partitions, "/", and then
// for each member its id, instance id or "-", topics, what it had as topic:partition, "/". A line
// of the output is what everybody got, as member:topic:partition.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class Assignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(assign(List.of(line.split(" ")).iterator()));
        }
    }

    private static String assign(Iterator<String> words) {
        ConsumerGroupPartitionAssignor assignor =
            words.next().equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type =
            words.next().equals("alike") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<Uuid, Integer> topics = new HashMap<>();
        for (String word : field(words)) {
            String[] parts = word.split(":");
            topics.put(topic(parts[0]), Integer.valueOf(parts[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        while (words.hasNext()) {
            String id = words.next();
            String instance = words.next();
            Set<Uuid> subscribed = new TreeSet<>();
            for (String word : field(words)) subscribed.add(topic(word));
            Map<Uuid, Set<Integer>> had = new LinkedHashMap<>();
            for (String word : field(words)) {
                String[] parts = word.split(":");
                int partition = Integer.parseInt(parts[1]);
                had.computeIfAbsent(topic(parts[0]), each -> new TreeSet<>()).add(partition);
                owners.computeIfAbsent(topic(parts[0]), each -> new HashMap<>()).put(partition, id);
            }
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                instance.equals("-") ? Optional.empty() : Optional.of(instance),
                subscribed,
                new Assignment(Collections.unmodifiableMap(had))));
        }
        GroupAssignment assigned = assignor.assign(
            new GroupSpecImpl(members, type, owners),
            new SubscribedTopicDescriber() {
                public int numPartitions(Uuid topic) {
                    return topics.getOrDefault(topic, -1);
                }

                public Set<String> racksForPartition(Uuid topic, int partition) {
                    return Set.of();
                }
            });
        List<String> found = new ArrayList<>();
        assigned.members().forEach((id, each) -> each.partitions().forEach((topic, partitions) -> {
            for (int partition : partitions) {
                found.add(id + ":" + topic.getLeastSignificantBits() + ":" + partition);
            }
        }));
        return String.join(" ", found);
    }

    private static List<String> field(Iterator<String> words) {
        List<String> found = new ArrayList<>();
        for (String word = words.next(); !word.equals("/"); word = words.next()) found.add(word);
        return found;
    }

    private static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }
}
