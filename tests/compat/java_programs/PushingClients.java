// Produces to a topic and reads it, until its stdin ends: java PushingClients BOOTSTRAP TOPIC.
// Java's clients push metrics to brokers that ask for them (KIP-714).

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class PushingClients {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> reads = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "client.id", "java-consumer", "group.id", "java-group",
            "auto.offset.reset", "earliest"));
        Map<String, Object> writes =
            Map.of("bootstrap.servers", arguments[0], "client.id", "java-producer");
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(writes, new StringSerializer(), new StringSerializer());
             KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(reads, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>(arguments[1], "x")).get();
                consumer.poll(Duration.ofMillis(20));
            }
        }
    }
}
