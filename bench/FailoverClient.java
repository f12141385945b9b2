import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own client at work for bench/failover.py: a line on stdout for each record. */
public final class FailoverClient {
    private static final PrintStream OUT = System.out;

    private static synchronized void tell(Exception problem) {
        OUT.println(problem == null ? "ok" : "error " + problem);
        OUT.flush();
    }

    public static void main(String[] arguments) throws Exception {
        String role = arguments[0];
        String topic = arguments[2];
        CountDownLatch ended = new CountDownLatch(1);
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException gone) {
                // as good as its end
            }
            ended.countDown();
        });
        reader.setDaemon(true);
        reader.start();
        if (role.equals("consume")) {
            consume(arguments[1], topic, ended);
        } else {
            produce(arguments[1], topic, role.equals("idempotent"), ended);
        }
    }

    private static void produce(
            String bootstrap, String topic, boolean idempotent, CountDownLatch ended) throws Exception {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", idempotent,
                "key.serializer", ByteArraySerializer.class,
                "value.serializer", ByteArraySerializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            while (!ended.await(1, TimeUnit.MILLISECONDS)) {
                producer.send(
                        new ProducerRecord<>(topic, 0, null, new byte[50]),
                        (stored, problem) -> tell(problem));
            }
        }
    }

    private static void consume(String bootstrap, String topic, CountDownLatch ended) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "enable.auto.commit", false,
                "key.deserializer", ByteArrayDeserializer.class,
                "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            consumer.seekToEnd(consumer.assignment());
            while (ended.getCount() > 0) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> tell(null));
            }
        }
    }
}
