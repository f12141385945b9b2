import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own client for bench/transactions.py. Transactions until the time is over, those of the
 * first seconds not counted: "produce" writes a record to each partition of a topic, "transform"
 * copies records from a topic to another. Prints transactions, records, seconds, and the
 * nanoseconds of each commit, or of each transaction that copies.
 */
public final class TransactionClient {
    private static final int PATIENCE_MS = 30_000;
    private static long transactions;
    private static long records;
    private static long[] waits = new long[1 << 16];
    private static long began;
    private static long counted;
    private static long end;
    private static long last;

    public static void main(String[] arguments) {
        String bootstrap = arguments[1];
        String topic = arguments[2];
        double uncountedSeconds = Double.parseDouble(arguments[4]);
        double seconds = Double.parseDouble(arguments[5]);
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "transactional.id", "java-" + topic,
                "key.serializer", ByteArraySerializer.class,
                "value.serializer", ByteArraySerializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            if (arguments[0].equals("produce")) {
                start(uncountedSeconds, seconds);
                produce(producer, topic, Integer.parseInt(arguments[3]));
            } else {
                transform(producer, bootstrap, topic, arguments[3], uncountedSeconds, seconds);
            }
        }
        double took = (last - counted) / 1e9;
        System.out.println(transactions + " " + records + " " + took);
        int size = (int) Math.min(transactions, waits.length);
        StringBuilder line = new StringBuilder();
        for (long wait : Arrays.copyOf(waits, size)) {
            line.append(wait).append(' ');
        }
        System.out.println(line);
    }

    private static void start(double uncountedSeconds, double seconds) {
        began = System.nanoTime();
        counted = began + (long) (uncountedSeconds * 1e9);
        end = counted + (long) (seconds * 1e9);
    }

    private static void commit(KafkaProducer<byte[], byte[]> producer, int count, long before) {
        // Otherwise its sender thread sometimes sends EndTxn before the records: it looks for records
        // first, and for EndTxn only then, when this thread may have added both.
        producer.flush();
        producer.commitTransaction();
        long after = System.nanoTime();
        if (before >= counted) {
            if (transactions < waits.length) {
                waits[(int) transactions] = after - before;
            }
            transactions++;
            last = after;
            records += count;
        }
    }

    private static void produce(KafkaProducer<byte[], byte[]> producer, String topic, int partitions) {
        byte[] value = new byte[100];
        while (System.nanoTime() < end) {
            producer.beginTransaction();
            for (int partition = 0; partition < partitions; partition++) {
                producer.send(new ProducerRecord<>(topic, partition, null, value));
            }
            commit(producer, partitions, System.nanoTime());
        }
    }

    private static void transform(
            KafkaProducer<byte[], byte[]> producer, String bootstrap, String from, String to,
            double uncountedSeconds, double seconds) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", bootstrap, "group.id", "java-" + from,
                "enable.auto.commit", false, "auto.offset.reset", "earliest",
                "isolation.level", "read_committed",
                "key.deserializer", ByteArrayDeserializer.class,
                "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(List.of(from));
            long patience = System.nanoTime() + PATIENCE_MS * 1_000_000L;
            while (System.nanoTime() < patience) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(100));
                if (polled.isEmpty()) {
                    continue;
                }
                if (began == 0) {
                    start(uncountedSeconds, seconds);
                    patience = end;
                }
                long before = System.nanoTime();
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    producer.send(new ProducerRecord<>(to, record.key(), record.value()));
                }
                for (TopicPartition partition : polled.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> some = polled.records(partition);
                    long next = some.get(some.size() - 1).offset() + 1;
                    offsets.put(partition, new OffsetAndMetadata(next));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                commit(producer, polled.count(), before);
            }
        }
    }
}
