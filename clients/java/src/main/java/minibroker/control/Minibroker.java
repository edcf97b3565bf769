package minibroker.control;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * A `minibroker serve` started by this JVM.
 *
 * <p>The broker ends with `close`. It also ends with the JVM in every case, since its stdin is a pipe held by the JVM.
 */
public final class Minibroker implements AutoCloseable {
    private static final int START_SECONDS = 60;
    private static final int STOP_SECONDS = 30;
    private static final int KEPT_ERRORS = 8192;
    private static final String READY = "minibroker ready:";

    private final Process process;
    private final String bootstrapServers;
    private final String registryUrl;
    private final ControlClient control;

    private Minibroker(Process process, String line, ControlClient control) {
        this.process = process;
        this.bootstrapServers = word("bootstrap", line);
        this.registryUrl = word("registry", line);
        this.control = control;
    }

    /** The options of a broker to start on free ports. */
    public static final class Options {
        private List<String> command = List.of();
        private final List<String> arguments = new ArrayList<>();
        private String token;
        private Consumer<String> stderr = System.err::println;

        private Options() {}

        /**
         * Sets the program and its first arguments. The default is MINIBROKER_COMMAND, MINIBROKER_BINARY (a program or an
         * archive of a release), the program in the class path, or else minibroker on the PATH.
         */
        public Options command(String... command) {
            this.command = List.of(command);
            return this;
        }

        /** Creates a topic at the start and again at each reset: NAME[:PARTITIONS[:KEY=VALUE,...]]. */
        public Options topic(String topic) {
            return arguments("--topic", topic);
        }

        /** Sets the size of the cluster. */
        public Options brokers(int brokers) {
            return arguments("--brokers", Integer.toString(brokers));
        }

        /** Adds a schema registry. It needs the extra registry. */
        public Options registry() {
            return arguments("--registry", "127.0.0.1:0");
        }

        /** Sets the token that the control plane requires. */
        public Options token(String token) {
            this.token = token;
            return this;
        }

        /** Adds arguments of `minibroker serve`. */
        public Options arguments(String... arguments) {
            this.arguments.addAll(List.of(arguments));
            return this;
        }

        /** Sets the consumer of the broker's log lines. The default is System.err. */
        public Options stderr(Consumer<String> stderr) {
            this.stderr = stderr;
            return this;
        }

        /** Starts the broker, and returns when clients can connect. */
        public Minibroker start() {
            return Minibroker.start(this);
        }
    }

    /** Returns options for one broker without topics. */
    public static Options options() {
        return new Options();
    }

    /** Returns the bootstrap.servers of Kafka clients: HOST:PORT, or several separated by commas. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Returns the address of the schema registry, or null without {@link Options#registry}. */
    public String registryUrl() {
        return registryUrl;
    }

    public ControlClient control() {
        return control;
    }

    /** Ends the broker and deletes its data unless it has a --data-dir. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        if (!process.isAlive() && process.exitValue() != 0) {
            throw new IllegalStateException("minibroker: the broker has ended with status " + process.exitValue());
        }
    }

    private static Minibroker start(Options options) {
        Program program = new Program(System.getenv());
        List<String> command = new ArrayList<>(options.command.isEmpty() ? List.of(program.find()) : options.command);
        command.addAll(List.of("serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stop-with-stdin", "--journal"));
        command.addAll(options.arguments);
        ProcessBuilder builder = new ProcessBuilder(command);
        if (options.token != null) {
            builder.environment().put("MINIBROKER_CONTROL_TOKEN", options.token);
        }
        Process process;
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new UncheckedIOException("minibroker: it does not start: " + error.getMessage()
                + "; add minibroker:minibroker-binary:" + Program.VERSION + ":" + Program.platform()
                + " to the dependencies, or set MINIBROKER_BINARY" + program.cacheHint(command.get(0)), error);
        }
        StringBuffer errors = new StringBuffer();
        CompletableFuture<String> ready = new CompletableFuture<>();
        Thread reports = reader(process, process.errorReader(StandardCharsets.UTF_8), line -> {
            errors.append(line).append('\n').delete(0, Math.max(0, errors.length() - KEPT_ERRORS));
            options.stderr.accept(line);
        }, () -> {});
        reader(process, process.inputReader(StandardCharsets.UTF_8), line -> {
            if (line.startsWith(READY)) {
                ready.complete(line);
            }
        }, () -> ready.complete(""));
        String line = await(ready, process);
        if (line == null || line.isEmpty()) {
            process.destroyForcibly();
            String reason = line == null ? "has not become ready in " + START_SECONDS + " s" : "has ended before it was ready";
            throw new IllegalStateException(
                ("minibroker: " + String.join(" ", command) + " " + reason + "\n" + ended(reports, errors)).strip()
                    + program.cacheHint(command.get(0)));
        }
        Minibroker broker = new Minibroker(process, line, new ControlClient(word("control", line), options.token));
        String version = broker.control.about().version();
        if (!version.equals(Program.VERSION)) {
            broker.close();
            throw new IllegalStateException("minibroker: " + command.get(0) + " is version " + version
                + ", and this client is for " + Program.VERSION);
        }
        return broker;
    }

    /** Returns the line, which is empty if the broker has ended, or null after a timeout. */
    private static String await(CompletableFuture<String> ready, Process process) {
        try {
            return ready.get(START_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException error) {
            return null;
        } catch (ExecutionException error) {
            throw new IllegalStateException(error);
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
            throw new IllegalStateException("minibroker: interrupted while the broker started", error);
        }
    }

    private static String ended(Thread reports, StringBuffer errors) {
        try {
            reports.join(TimeUnit.SECONDS.toMillis(STOP_SECONDS));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return errors.toString().strip();
    }

    /** Starts a thread that reads lines. It holds the process, whose stdin would be closed with the last reference. */
    private static Thread reader(Process process, BufferedReader lines, Consumer<String> take, Runnable end) {
        Thread thread = new Thread(() -> {
            try (lines) {
                lines.lines().forEach(take);
            } catch (IOException | UncheckedIOException error) {
                // The broker has ended.
            }
            end.run();
            process.isAlive();
        }, "minibroker-output");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static String word(String name, String line) {
        for (String each : line.split("\\s+")) {
            if (each.startsWith(name + "=")) {
                return each.substring(name.length() + 1);
            }
        }
        return null;
    }
}
