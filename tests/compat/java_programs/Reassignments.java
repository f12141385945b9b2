import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/**
 * Begins a reassignment of a partition, lists it and cancels it; prints what comes of each.
 * Arguments: bootstrap servers, topic, partition, the replicas that it should have.
 */
public class Reassignments {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            TopicPartition moved =
                new TopicPartition(arguments[1], Integer.parseInt(arguments[2]));
            TopicPartition missing = new TopicPartition("missing", 0);
            NewPartitionReassignment target = new NewPartitionReassignment(
                Stream.of(arguments[3].split(",")).map(Integer::valueOf).toList());
            alter(admin, Map.of(moved, Optional.of(new NewPartitionReassignment(List.of(99)))));
            alter(admin, Map.of(moved, Optional.of(target), missing, Optional.of(target)));
            print("all", admin.listPartitionReassignments().reassignments());
            print("some", admin.listPartitionReassignments(
                java.util.Set.of(moved, missing)).reassignments());
            print("others", admin.listPartitionReassignments(
                java.util.Set.of(missing)).reassignments());
            alter(admin, Map.of(moved, Optional.empty()));
            alter(admin, Map.of(moved, Optional.empty()));
            print("all", admin.listPartitionReassignments().reassignments());
        }
    }

    private static void alter(
            Admin admin, Map<TopicPartition, Optional<NewPartitionReassignment>> targets)
            throws InterruptedException {
        Map<TopicPartition, KafkaFuture<Void>> results =
            new TreeMap<>(java.util.Comparator.comparing(TopicPartition::toString));
        results.putAll(admin.alterPartitionReassignments(targets).values());
        for (KafkaFuture<Void> each : results.values()) {
            try {
                each.get();
                System.out.println("accepted");
            } catch (ExecutionException error) {
                System.out.println(error.getCause().getClass().getSimpleName() + ": "
                    + error.getCause().getMessage());
            }
        }
    }

    private static void print(
            String what, KafkaFuture<Map<TopicPartition, PartitionReassignment>> found)
            throws Exception {
        System.out.println(found.get().entrySet().stream()
            .map(each -> each.getKey() + " " + each.getValue().replicas()
                + " adding " + each.getValue().addingReplicas()
                + " removing " + each.getValue().removingReplicas())
            .collect(Collectors.joining("; ", what + ": ", "")));
    }
}
