import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * An application of Kafka Streams, for tests/compat/test_kafka_streams.py; it runs until it is killed. It
 * counts the words of `lines` in `counts`, and adds up the amounts of `orders` ("customer amount") per region
 * of the table `customers` in `totals`. Nothing is cached, so each input makes one record of each result. The
 * argument is JSON; what happens is written as JSON, a line each.
 */
public class StreamsApplication {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode options = JSON.readTree(arguments[0]);
        Properties settings = new Properties();
        options.get("settings").fields().forEachRemaining(
            each -> settings.put(each.getKey(), each.getValue().asText()));
        KafkaStreams streams = new KafkaStreams(topology().build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            tell("failed", Map.of("why", text(error)));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> tell("state", Map.of("state", now.toString())));
        streams.start();
        Thread.currentThread().join();
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        var strings = Consumed.with(Serdes.String(), Serdes.String());
        var numbers = Produced.with(Serdes.String(), Serdes.Long());
        KStream<String, String> lines = builder.stream("lines", strings);
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to("counts", numbers);

        KTable<String, String> regions = builder.table("customers", strings, Materialized.as("regions"));
        KStream<String, String> orders = builder.stream("orders", strings);
        orders.selectKey((key, order) -> order.split(" ")[0])
            .mapValues(order -> Long.valueOf(order.split(" ")[1]))
            .join(regions, (amount, region) -> Map.entry(region, amount),
                Joined.with(Serdes.String(), Serdes.Long(), Serdes.String(), "orders"))
            .map((customer, sold) -> KeyValue.pair(sold.getKey(), sold.getValue()))
            .groupByKey(Grouped.with("sold", Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, Materialized.as("totals"))
            .toStream()
            .to("totals", numbers);
        return builder;
    }

    private static String text(Throwable error) {
        String told = error.toString();
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) told += " / " + cause;
        return told;
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
}
