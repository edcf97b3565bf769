import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.Exit;

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

    private static String text(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        int[] first = new int[1]; // the first status that the tool has asked for
        Exit.setExitProcedure((status, message) -> {
            first[0] = first[0] < 0 ? status : first[0]; // a tool's own handler may call exit again
            throw new ToolExit(first[0]);
        });
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
