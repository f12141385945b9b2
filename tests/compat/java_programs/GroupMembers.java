// Members of consumer groups by Kafka's own client, for tests/compat/member_hosts.py.
//
// Orders come as JSON, a line each, on stdin: to start a member, to have it leave, or to run one of
// Kafka's tools. What happens to a member, and what a tool prints, is written as JSON, a line each.
// When stdin ends, all leave.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream EVENTS = System.out; // tools are given another one
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    public static void main(String[] arguments) throws Exception {
        BufferedReader stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Member> members = new HashMap<>();
        String line;
        while ((line = stdin.readLine()) != null) {
            JsonNode order = JSON.readTree(line);
            String name = order.get("member").asText();
            if (order.get("do").asText().equals("start")) {
                Member member = new Member(name, order);
                members.put(name, member);
                new Thread(member, name).start();
            } else if (order.get("do").asText().equals("tool")) {
                runTool(name, order);
            } else {
                members.remove(name).leaves.set(true);
            }
        }
        members.values().forEach(member -> member.leaves.set(true));
    }

    private static void runTool(String name, JsonNode order) throws Exception {
        List<String> words = new ArrayList<>();
        order.get("words").forEach(word -> words.add(word.asText()));
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        Class.forName(order.get("class").asText())
            .getMethod("main", String[].class)
            .invoke(null, (Object) words.toArray(new String[0]));
        tell("printed", name, Map.of("text", printed.toString(StandardCharsets.UTF_8)));
    }

    private static void tell(String event, String member, Map<String, Object> facts) {
        Map<String, Object> told = new TreeMap<>(facts);
        told.put("event", event);
        told.put("member", member);
        synchronized (JSON) {
            try {
                EVENTS.println(JSON.writeValueAsString(told));
            } catch (com.fasterxml.jackson.core.JsonProcessingException problem) {
                throw new IllegalStateException(problem);
            }
        }
    }

    private static class Member implements Runnable {
        final AtomicBoolean leaves = new AtomicBoolean();
        private final String name;
        private final JsonNode order;
        private Set<TopicPartition> had;
        private int reads = -1;

        Member(String name, JsonNode order) {
            this.name = name;
            this.order = order;
        }

        @Override
        public void run() {
            try {
                while (!live()) had = null;
            } catch (KafkaException | ReflectiveOperationException problem) {
                tell("failed", Map.of("text", problem.toString()));
                return;
            }
            tell("closed", Map.of());
        }

        // False if the client failed by a fault of its own: in Kafka 4.1 records may be handed over
        // while the partition they are of is taken away. A program would begin again.
        private boolean live() throws ReflectiveOperationException {
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings())) {
                subscribe(consumer);
                while (!leaves.get()) read(consumer);
                return true;
            } catch (IllegalStateException fault) {
                if (String.valueOf(fault.getMessage()).startsWith("No current assignment")) return false;
                throw fault;
            }
        }

        private void subscribe(KafkaConsumer<String, String> consumer) throws ReflectiveOperationException {
            if (order.hasNonNull("expression")) {
                // Kafka 3.9 has no such class.
                Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
                Object expression = pattern.getConstructor(String.class).newInstance(order.get("expression").asText());
                KafkaConsumer.class.getMethod("subscribe", pattern).invoke(consumer, expression);
                return;
            }
            List<String> topics = new ArrayList<>();
            order.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics);
        }

        private Map<String, Object> settings() {
            Map<String, Object> settings = new HashMap<>();
            List<String> bootstrap = new ArrayList<>();
            order.get("bootstrap").forEach(address -> bootstrap.add(address.asText()));
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", order.get("group").asText());
            settings.put("client.id", order.get("client").asText());
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", false);
            if (order.hasNonNull("protocol") && order.get("protocol").asText().equals("consumer")) {
                settings.put("group.protocol", "consumer");
                settings.put("group.remote.assignor", order.get("strategy").asText());
            } else {
                settings.put("partition.assignment.strategy", ASSIGNORS.get(order.get("strategy").asText()));
                settings.put("session.timeout.ms", order.get("session_ms").asInt());
                settings.put("heartbeat.interval.ms", 500);
            }
            settings.put("metadata.max.age.ms", 1_000);
            settings.put("retry.backoff.ms", 50);
            settings.put("reconnect.backoff.max.ms", 200);
            settings.put("key.deserializer", StringDeserializer.class.getName());
            settings.put("value.deserializer", StringDeserializer.class.getName());
            if (order.hasNonNull("rack")) settings.put("client.rack", order.get("rack").asText());
            if (order.hasNonNull("rack")) settings.put("client.rack", order.get("rack").asText());
            if (order.hasNonNull("instance")) settings.put("group.instance.id", order.get("instance").asText());
            return settings;
        }

        private void read(KafkaConsumer<String, String> consumer) {
            ConsumerRecords<String, String> records;
            try {
                records = consumer.poll(Duration.ofMillis(100));
            } catch (org.apache.kafka.common.errors.UnknownMemberIdException missed) {
                return; // it was paused for too long, and asked for offsets first: it joins again
            }
            see(consumer.assignment());
            if (order.hasNonNull("rack")) seeReplica(consumer);
            for (ConsumerRecord<String, String> record : records) {
                tell("record", Map.of(
                    "topic", record.topic(), "partition", record.partition(),
                    "offset", record.offset(), "value", String.valueOf(record.value())));
            }
            if (records.isEmpty()) return;
            try {
                consumer.commitSync();
            } catch (org.apache.kafka.common.errors.FencedInstanceIdException fatal) {
                throw fatal;
            } catch (KafkaException problem) {
                tell("commit failed", Map.of("text", problem.getClass().getSimpleName()));
            }
        }

        private void see(Set<TopicPartition> assignment) {
            if (assignment.equals(had)) return;
            had = Set.copyOf(assignment);
            List<List<Object>> partitions = new ArrayList<>();
            had.forEach(each -> partitions.add(List.of(each.topic(), each.partition())));
            partitions.sort((one, other) -> {
                int byTopic = ((String) one.get(0)).compareTo((String) other.get(0));
                return byTopic != 0 ? byTopic : Integer.compare((Integer) one.get(1), (Integer) other.get(1));
            });
            tell("assigned", Map.of("partitions", partitions));
        }

        // What the client itself says of where it reads; -1 is the leader.
        private void seeReplica(KafkaConsumer<String, String> consumer) {
            consumer.metrics().forEach((metric, value) -> {
                if (!metric.name().equals("preferred-read-replica")) return;
                int replica = ((Number) value.metricValue()).intValue();
                if (replica == reads) return;
                reads = replica;
                tell("replica", Map.of("replica", replica));
            });
        }

        private void tell(String event, Map<String, Object> facts) {
            GroupMembers.tell(event, name, facts);
        }
    }
}
