// Members of consumer groups, each on a thread of its own, and Kafka's tools, in one JVM. A line of
// the input is a command, its fields separated by blanks:
//     start NAME GROUP PROTOCOL INSTANCE|- TOPIC[,TOPIC]|/EXPRESSION     a member, which is called NAME
//     close NAME                                               it leaves, as a static one for a while
//     tool NUMBER CLASS ARGUMENT...                            what a tool's `main` prints
// A line of the output is an event in JSON. A member commits what it has read before it reads on.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupMembers {
    private static final PrintStream events = System.out;
    private static final Map<String, Member> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Member member = new Member(arguments[0], words);
                members.put(words[1], member);
                member.start();
            } else if (words[0].equals("close")) {
                members.remove(words[1]).isWanted = false;
            } else {
                runTool(words);
            }
        }
        System.exit(0);
    }

    private static void runTool(String[] words) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true));
        Class.forName(words[2])
            .getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(words, 3, words.length));
        tell("tool", words[1], ",\"text\":" + quoted(printed.toString()));
    }

    static void tell(String event, String member, String more) {
        synchronized (events) {
            events.println("{\"event\":\"" + event + "\",\"member\":\"" + member + "\"" + more + "}");
            events.flush();
        }
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }

    static class Member extends Thread {
        volatile boolean isWanted = true;
        private final String name;
        private final String what;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private String told = "";

        Member(String bootstrap, String[] words) {
            name = words[1];
            what = words[5];
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("client.id", name);
            properties.put("group.id", words[2]);
            properties.put("group.protocol", words[3]);
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            properties.put("metadata.max.age.ms", "1000");
            properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
            properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
            if (words[3].equals("classic")) {
                properties.put("session.timeout.ms", "6000");
                properties.put("heartbeat.interval.ms", "500");
            }
            if (!words[4].equals("-")) properties.put("group.instance.id", words[4]);
            consumer = new KafkaConsumer<>(properties);
        }

        @Override
        public void run() {
            if (what.startsWith("/")) {
                consumer.subscribe(new SubscriptionPattern(what.substring(1)));
            } else {
                consumer.subscribe(List.of(what.split(",")));
            }
            try {
                while (isWanted) work();
                consumer.close(Duration.ofSeconds(20));
                tell("closed", name, "");
            } catch (KafkaException problem) {
                tell("failed", name, ",\"text\":" + quoted(problem.toString()));
                consumer.close(Duration.ZERO);
            }
        }

        private void work() {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            tellAssignment(consumer.assignment());
            for (ConsumerRecord<byte[], byte[]> each : records) {
                tell("record", name, ",\"topic\":\"" + each.topic() + "\",\"partition\":"
                    + each.partition() + ",\"offset\":" + each.offset());
            }
            if (records.isEmpty()) return;
            try {
                consumer.commitSync();
            } catch (org.apache.kafka.clients.consumer.CommitFailedException problem) {
                tell("commit failed", name, ",\"text\":" + quoted(problem.toString()));
            }
        }

        private void tellAssignment(Collection<TopicPartition> partitions) {
            String now = partitions.stream()
                .map(each -> "[\"" + each.topic() + "\"," + each.partition() + "]")
                .collect(Collectors.toCollection(TreeSet::new))
                .stream()
                .collect(Collectors.joining(",", "[", "]"));
            if (!now.equals(told)) {
                told = now;
                tell("assigned", name, ",\"partitions\":" + now);
            }
        }
    }
}
