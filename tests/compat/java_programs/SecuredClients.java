import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers and consumers of Kafka's own, for tests/compat/client_programs.py: requests come as JSON, a
 * line each, on stdin, with the `properties` of the client; answers leave as JSON, a line each, on
 * stdout. Records have values only, and lie in partition 0.
 */
public class SecuredClients {
    static final Duration DEADLINE = Duration.ofSeconds(60);

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = requests.readLine()) != null) {
            JsonNode request = json.readTree(line);
            Map<String, Object> told = new HashMap<>();
            try {
                told.put("answer", request.get("action").asText().equals("produce")
                    ? produce(request) : consume(request));
            } catch (Exception error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                told.put("error", cause.toString());
            }
            System.out.println(json.writeValueAsString(told));
        }
    }

    static Map<String, Object> properties(JsonNode request) {
        Map<String, Object> found = new HashMap<>();
        request.get("properties").fields().forEachRemaining(
            each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }

    static Map<String, Object> transfer(List<Map<String, Object>> records, long began) {
        return Map.of("records", records, "elapsed_ms", System.currentTimeMillis() - began, "throttle_ms", 0);
    }

    static Map<String, Object> record(byte[] value, long timestamp, long offset) {
        Map<String, Object> one = new HashMap<>();
        one.put("partition", 0);
        one.put("key", null);
        one.put("value", Base64.getEncoder().encodeToString(value));
        one.put("headers", List.of());
        one.put("timestamp_ms", timestamp);
        one.put("offset", offset);
        return one;
    }

    static Object produce(JsonNode request) throws Exception {
        Map<String, Object> properties = properties(request);
        properties.put("max.block.ms", String.valueOf(DEADLINE.toMillis()));
        long began = System.currentTimeMillis();
        List<Map<String, Object>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode each : request.get("records")) {
                byte[] value = each.get("value").binaryValue();
                long timestamp = each.get("timestamp_ms").asLong();
                var one = new ProducerRecord<byte[], byte[]>(
                    request.get("topic").asText(), 0, timestamp, null, value);
                sent.add(record(value, timestamp, producer.send(one).get().offset()));
            }
        }
        return transfer(sent, began);
    }

    static Object consume(JsonNode request) {
        Map<String, Object> properties = properties(request);
        long began = System.currentTimeMillis();
        List<Map<String, Object>> read = new ArrayList<>();
        TopicPartition place = new TopicPartition(request.get("topic").asText(), 0);
        try (var consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place), DEADLINE).get(place);
            while (consumer.position(place, DEADLINE) < end) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(DEADLINE)) {
                    read.add(record(one.value(), one.timestamp(), one.offset()));
                }
            }
        }
        return transfer(read, began);
    }
}
