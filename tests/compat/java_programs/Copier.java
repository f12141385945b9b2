import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The program of tests/support/copier_program.py by Kafka's own client. After any error it closes both
 * clients and begins anew, as Kafka's documentation advises.
 */
public class Copier implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JsonNode options;

    Copier(JsonNode options) {
        this.options = options;
    }

    public static void main(String[] arguments) throws Exception {
        Copier copier = new Copier(JSON.readTree(arguments[0]));
        while (true) {
            try {
                copier.run();
            } catch (KafkaException | IllegalStateException error) {
                tell("failed", Map.of("why", error.toString()));
            }
        }
    }

    private static synchronized void tell(String event, Map<String, Object> facts) {
        Map<String, Object> told = new TreeMap<>(facts);
        told.put("event", event);
        try {
            System.out.println(JSON.writeValueAsString(told));
        } catch (com.fasterxml.jackson.core.JsonProcessingException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private void run() {
        try (var producer = producer(); var consumer = consumer()) {
            producer.initTransactions();
            tell("ready", Map.of());
            consumer.subscribe(List.of(options.get("source").asText()), this);
            while (true) {
                ConsumerRecords<String, String> read = consumer.poll(Duration.ofMillis(50));
                if (!read.isEmpty()) copy(read, producer, consumer);
            }
        }
    }

    private void copy(
        ConsumerRecords<String, String> read, KafkaProducer<String, String> producer,
        KafkaConsumer<String, String> consumer
    ) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        for (ConsumerRecord<String, String> one : read) {
            producer.send(new ProducerRecord<>(
                options.get("target").asText(), one.partition(), null, one.value()));
            next.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
        producer.commitTransaction();
        tell("committed", Map.of("count", read.count()));
    }

    private KafkaProducer<String, String> producer() {
        return new KafkaProducer<>(Map.of(
            "bootstrap.servers", options.get("bootstrap").asText(),
            "transactional.id", options.get("transactional_id").asText(),
            "transaction.timeout.ms", options.get("timeout_ms").asInt()
        ), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer() {
        return new KafkaConsumer<>(Map.of(
            "bootstrap.servers", options.get("bootstrap").asText(),
            "group.id", options.get("group").asText(),
            "session.timeout.ms", options.get("session_ms").asInt(),
            "heartbeat.interval.ms", 500,
            "isolation.level", "read_committed",
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "max.poll.records", 50
        ), new StringDeserializer(), new StringDeserializer());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", Map.of("count", partitions.size()));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", Map.of("count", partitions.size()));
    }
}
