// Places replicas by Kafka's AdminUtils. A line of the input: partitions, replication factor, start,
// first partition, and for each broker its id and rack as id:rack ("-": none), separated by blanks.
// A line of the output: for each partition its replicas, separated by commas.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

public class ReplicaAssignments {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(assign(line.split(" ")));
        }
    }

    private static String assign(String[] words) {
        int[] numbers = new int[4];
        for (int at = 0; at < 4; at++) numbers[at] = Integer.parseInt(words[at]);
        List<BrokerMetadata> brokers = new ArrayList<>();
        for (int at = 4; at < words.length; at++) {
            String[] parts = words[at].split(":");
            Optional<String> rack = parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]);
            brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
        }
        Map<Integer, List<Integer>> found =
            AdminUtils.assignReplicasToBrokers(brokers, numbers[0], numbers[1], numbers[2], numbers[3]);
        StringJoiner line = new StringJoiner(" ");
        for (List<Integer> replicas : new TreeMap<>(found).values()) {
            StringJoiner partition = new StringJoiner(",");
            for (Integer broker : replicas) partition.add(broker.toString());
            line.add(partition.toString());
        }
        return line.toString();
    }
}
