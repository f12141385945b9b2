// Runs Kafka's command-line tools one after the other in one JVM, for `ToolShell` in
// tests/compat/kafka_process.py: a run costs a fraction of a JVM's start.
//
// A line of stdin is a JSON array: the main class and its arguments. A line of stdout is what came of
// it: {"status": exit status, "output": what it wrote}.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

public class ToolShell {
    private static class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            this.status = status;
        }
    }

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> { throw new Ended(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Ended(status); });
        String line;
        while ((line = stdin.readLine()) != null) {
            String[] words = json.readValue(line, String[].class);
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            PrintStream written = new PrintStream(output, true, StandardCharsets.UTF_8);
            System.setOut(written);
            System.setErr(written);
            int status = run(words[0], Arrays.copyOfRange(words, 1, words.length), written);
            answers.println(json.writeValueAsString(
                Map.of("status", status, "output", output.toString(StandardCharsets.UTF_8))));
            answers.flush();
        }
    }

    private static int run(String name, String[] arguments, PrintStream written) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended) return ((Ended) thrown.getCause()).status;
            thrown.getCause().printStackTrace(written);
            return 1;
        }
    }
}
