import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Begins to use transactions at arguments[0]. Prints how many ms that took, and the error. */
public class Transactions {
    public static void main(String[] arguments) {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", "payments",
            "max.block.ms", "60000");
        long began = System.nanoTime();
        String told = "none";
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            began = System.nanoTime();
            producer.initTransactions();
        } catch (Exception error) {
            told = error.toString();
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                told += " / " + cause;
            }
        }
        System.out.println((System.nanoTime() - began) / 1_000_000 + " " + told);
    }
}
