import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/**
 * Kafka's command line tools of any release, line by line: a class and its arguments in, what it printed out.
 *
 * A line has a class and arguments, in base64, with tabs between them. The answer is the exit status and, behind a tab,
 * the text on stdout and stderr in base64. The status of an exception that nothing catches is 1, and its text the last.
 */
public final class ToolOracle {
    private static final class ToolExit extends RuntimeException {
        private final int status;

        ToolExit(int status) {
            super("exit status " + status);
            this.status = status;
        }
    }

    private static int run(String name, String[] arguments, PrintStream errors) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (ReflectiveOperationException failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            if (cause instanceof ToolExit exit)
                return exit.status;
            errors.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            return 1;
        }
    }

    /** Kafka's class that ends the JVM. 4.4 has moved it. */
    private static Class<?> exits() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    private static String text(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        int[] first = new int[1]; // the first status that the tool has asked for
        Class<?> exits = exits();
        Class<?> procedure = Class.forName(exits.getName() + "$Procedure");
        Object end = Proxy.newProxyInstance(exits.getClassLoader(), new Class<?>[] {procedure}, (self, method, asked) -> {
            first[0] = first[0] < 0 ? (Integer) asked[0] : first[0]; // a tool's own handler may call exit again
            throw new ToolExit(first[0]);
        });
        exits.getMethod("setExitProcedure", procedure).invoke(null, end);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = Arrays.stream(line.split("\t", -1)).map(ToolOracle::text).toArray(String[]::new);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8);
            first[0] = -1;
            System.setOut(capture);
            System.setErr(capture);
            int status = run(words[0], Arrays.copyOfRange(words, 1, words.length), capture);
            answers.println(status + "\t" + Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
    }
}
