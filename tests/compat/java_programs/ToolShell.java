// Runs Kafka's command-line tools one after the other in one JVM, for `ToolShell` in
// tests/compat/kafka_process.py: a run costs a fraction of a JVM's start.
//
// A line of stdin is JSON: {"class": the main class, "arguments": [...], "stdin": what it reads}. A line
// of stdout is what came of it: {"status": exit status, "stdout": ..., "stderr": ..., "output": both}.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

public class ToolShell {
    /** Ends a tool that asks for its end. */
    private static class Ended extends Error { }

    /** What a tool writes to one of its streams, also kept in the order of both. */
    private static class Written extends OutputStream {
        private static final ByteArrayOutputStream BOTH = new ByteArrayOutputStream();
        final ByteArrayOutputStream own = new ByteArrayOutputStream();

        @Override
        public void write(int one) {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            if (status != null) return; // it would have ended: what it says about Ended is nothing
            synchronized (BOTH) {
                own.write(bytes, offset, length);
                BOTH.write(bytes, offset, length);
            }
        }

        static String taken(ByteArrayOutputStream written) {
            synchronized (BOTH) {
                String text = written.toString(StandardCharsets.UTF_8);
                written.reset();
                return text;
            }
        }
    }

    /** Null while a tool runs. */
    private static volatile Integer status;

    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        // Set once: Scala's console keeps the streams that it sees first.
        Written stdout = new Written();
        Written stderr = new Written();
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((wanted, message) -> end(wanted));
        Exit.setHaltProcedure((wanted, message) -> end(wanted));
        Exit.setShutdownHookAdder((name, hook) -> { });
        String line;
        while ((line = orders.readLine()) != null) {
            JsonNode order = json.readTree(line);
            List<String> arguments = new ArrayList<>();
            order.get("arguments").forEach(each -> arguments.add(each.asText()));
            System.setIn(new ByteArrayInputStream(order.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
            run(order.get("class").asText(), arguments.toArray(new String[0]));
            answers.println(json.writeValueAsString(Map.of(
                "status", status,
                "stdout", Written.taken(stdout.own),
                "stderr", Written.taken(stderr.own),
                "output", Written.taken(Written.BOTH))));
            answers.flush();
        }
    }

    private static void end(int wanted) {
        if (status == null) status = wanted;
        throw new Ended();
    }

    private static void run(String name, String[] arguments) throws ReflectiveOperationException {
        status = null;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            if (status == null) status = 0;
        } catch (InvocationTargetException thrown) {
            if (status != null) return;
            System.err.print("Exception in thread \"main\" ");
            thrown.getCause().printStackTrace();
            status = 1;
        }
    }
}
