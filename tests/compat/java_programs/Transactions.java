import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions by Kafka's own client, for tests/compat/transaction_clients.py: requests come as JSON, a line
 * each, on stdin, with the `properties` of every client; answers leave as JSON, a line each, on stdout.
 */
public class Transactions {
    static final Duration DEADLINE = Duration.ofSeconds(60);
    static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = requests.readLine()) != null) {
            Map<String, Object> told = new HashMap<>();
            try {
                told.put("answer", answer(json.readTree(line)));
            } catch (Exception error) {
                told.put("error", text(error));
            }
            System.out.println(json.writeValueAsString(told));
        }
    }

    static String text(Throwable error) {
        String told = error.toString();
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            told += " / " + cause;
        }
        return told;
    }

    static Object answer(JsonNode request) throws Exception {
        String name = request.path("producer").asText();
        switch (request.get("action").asText()) {
            case "init": PRODUCERS.put(name, producer(request)); return null;
            case "begin": PRODUCERS.get(name).beginTransaction(); return null;
            case "send": send(PRODUCERS.get(name), request); return null;
            case "commit": PRODUCERS.get(name).commitTransaction(); return null;
            case "abort": PRODUCERS.get(name).abortTransaction(); return null;
            case "close": PRODUCERS.remove(name).close(Duration.ZERO); return null;
            case "copy": copy(request); return null;
            default: return read(request);
        }
    }

    static Map<String, Object> properties(JsonNode request) {
        Map<String, Object> found = new HashMap<>();
        request.get("properties").fields().forEachRemaining(
            each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }

    static KafkaProducer<String, String> producer(JsonNode request) {
        Map<String, Object> properties = properties(request);
        properties.put("transactional.id", request.get("transactional_id").asText());
        properties.put("transaction.timeout.ms", request.path("timeout_ms").asInt(60_000));
        var made = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        try {
            made.initTransactions();
        } catch (RuntimeException error) {
            made.close(Duration.ZERO);
            throw error;
        }
        return made;
    }

    static void send(KafkaProducer<String, String> producer, JsonNode request) throws Exception {
        String topic = request.get("topic").asText(), value = request.get("value").asText();
        try {
            producer.send(new ProducerRecord<>(topic, request.get("partition").asInt(), null, value)).get();
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    static KafkaConsumer<String, String> consumer(JsonNode request) {
        Map<String, Object> properties = properties(request);
        properties.put("isolation.level", request.get("is_committed").asBoolean() ? "read_committed" : "read_uncommitted");
        properties.put("enable.auto.commit", false);
        properties.put("fetch.max.wait.ms", 20);
        properties.put("auto.offset.reset", "earliest");
        if (request.has("group")) properties.put("group.id", request.get("group").asText());
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, JsonNode request) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.nanoTime() + DEADLINE.toNanos();
        while (found.size() < request.get("count").asInt()) {
            consumer.poll(Duration.ofMillis(100)).forEach(found::add);
            if (System.nanoTime() > deadline) throw new IllegalStateException(found.size() + " records");
        }
        return found;
    }

    static void copy(JsonNode request) {
        try (var producer = producer(request); var consumer = consumer(request)) {
            consumer.subscribe(List.of(request.get("source").asText()));
            List<ConsumerRecord<String, String>> read = poll(consumer, request);
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            for (ConsumerRecord<String, String> one : read) {
                producer.send(new ProducerRecord<>(
                    request.get("target").asText(), one.partition(), null, one.value().toUpperCase()));
                next.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
            }
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
            if (request.get("is_commit").asBoolean()) producer.commitTransaction();
            else producer.abortTransaction();
        }
    }

    static Object read(JsonNode request) {
        try (var consumer = consumer(request)) {
            List<TopicPartition> places = new ArrayList<>();
            for (int number = 0; number < request.get("partitions").asInt(); number++) {
                places.add(new TopicPartition(request.get("topic").asText(), number));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            List<ConsumerRecord<String, String>> read = poll(consumer, request);
            long grace = System.nanoTime() + request.get("grace_ms").asLong() * 1_000_000;
            while (System.nanoTime() < grace) consumer.poll(Duration.ofMillis(20)).forEach(read::add);
            return read.stream().map(ConsumerRecord::value).toList();
        }
    }
}
