import com.fasterxml.jackson.databind.ObjectMapper;

import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyPairGeneratorSpi;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Security;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.jar.JarFile;

/**
 * Runs test classes one after another: "list JAR..." prints the classes that start brokers, one on a line, and "run"
 * reads a line "CLASS [METHOD...]" for each class and prints a line of JSON for each test.
 */
public final class TestRun {
    /** What a class that starts brokers mentions, in its own bytes or in those of a superclass. */
    private static final List<String> STARTS_BROKERS = List.of("/ClusterTest;", "/ClusterTests;", "/ClusterTemplate;",
        "/KafkaClusterTestKit", "/EmbeddedKafkaCluster", "/EmbeddedConnectCluster", "kafka/server/QuorumTestHarness");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LONGEST_MESSAGE = 4000;

    public static void main(String[] arguments) throws Exception {
        PrintStream results = System.out;
        System.setOut(System.err);
        if (arguments[0].equals("list")) {
            for (String jar : Arrays.asList(arguments).subList(1, arguments.length)) {
                list(jar, results);
            }
        } else {
            Provider provider = new Provider("keys", "1", "") { };
            provider.put("KeyPairGenerator.RSA", KeysUsedAgain.class.getName());
            Security.insertProviderAt(provider, 1);
            Launcher launcher = LauncherFactory.create();
            BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                String[] words = line.split(" ");
                run(launcher, words[0], Set.of(Arrays.copyOfRange(words, 1, words.length)), results);
            }
        }
        results.flush();
        // Tests may leave threads behind that would keep the process.
        Runtime.getRuntime().halt(0);
    }

    private static void list(String jar, PrintStream results) throws Exception {
        try (JarFile file = new JarFile(jar)) {
            file.stream().map(entry -> entry.getName()).filter(name -> name.endsWith("Test.class") && !name.contains("$")).sorted().forEach(name -> {
                String className = name.substring(0, name.length() - 6).replace('/', '.');
                try {
                    Class<?> type = Class.forName(className, false, TestRun.class.getClassLoader());
                    if (!Modifier.isAbstract(type.getModifiers()) && startsBrokers(type)) {
                        results.println(className);
                    }
                } catch (ClassNotFoundException | LinkageError e) {
                    System.err.println(className + ": " + e);
                }
            });
        }
    }

    private static boolean startsBrokers(Class<?> type) {
        for (Class<?> part = type; part != null && part != Object.class; part = part.getSuperclass()) {
            try (InputStream stream = part.getClassLoader().getResourceAsStream(part.getName().replace('.', '/') + ".class")) {
                String bytes = new String(stream.readAllBytes(), StandardCharsets.ISO_8859_1);
                if (STARTS_BROKERS.stream().anyMatch(bytes::contains)) {
                    return true;
                }
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }
        return false;
    }

    private static void run(Launcher launcher, String className, Set<String> methods, PrintStream results) {
        PostDiscoveryFilter chosen = descriptor -> FilterResult.includedIf(methods.isEmpty()
            || descriptor.getSource().filter(source -> source instanceof MethodSource).map(source -> methods.contains(((MethodSource) source).getMethodName())).orElse(true));
        launcher.execute(LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.selectClass(className))
            .filters(chosen)
            .configurationParameter("junit.jupiter.execution.timeout.default", System.getProperty("minibroker.timeout", "300 s"))
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .build(), new Listener(className, results));
        print(results, Map.of("class", className, "end", true));
    }

    private static synchronized void print(PrintStream results, Map<String, ?> result) {
        try {
            results.println(JSON.writeValueAsString(result));
            results.flush();
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    /** Makes a few RSA keys, and then returns them again: to make one for each certificate takes most of the time of tests with TLS. */
    public static final class KeysUsedAgain extends KeyPairGeneratorSpi {
        private static final int KEYS = 12;
        private static final List<KeyPair> PAIRS = new ArrayList<>();
        private static int next = 0;

        @Override
        public void initialize(int keySize, SecureRandom random) { }

        @Override
        public KeyPair generateKeyPair() {
            synchronized (PAIRS) {
                if (PAIRS.size() < KEYS) {
                    try {
                        PAIRS.add(KeyPairGenerator.getInstance("RSA", "SunRsaSign").generateKeyPair());
                    } catch (GeneralSecurityException e) {
                        throw new IllegalStateException(e);
                    }
                }
                return PAIRS.get(next++ % KEYS);
            }
        }
    }

    private static final class Listener implements TestExecutionListener {
        private final String className;
        private final PrintStream results;
        private final Map<String, Long> begins = new ConcurrentHashMap<>();

        Listener(String className, PrintStream results) {
            this.className = className;
            this.results = results;
        }

        @Override
        public void executionStarted(TestIdentifier test) {
            begins.put(test.getUniqueId(), System.nanoTime());
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            report(test, "skipped", reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean isPassed = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            if (test.isTest() || !isPassed) {
                String outcome = isPassed ? "passed" : result.getStatus() == TestExecutionResult.Status.ABORTED ? "skipped" : "failed";
                report(test, outcome, result.getThrowable().map(Listener::trace).orElse(""));
            }
        }

        private static String trace(Throwable error) {
            StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            int inside = text.toString().indexOf("INSIDE-KAFKA");
            String shown = inside > LONGEST_MESSAGE ? text.toString().substring(inside) : text.toString();
            return shown.substring(0, Math.min(shown.length(), LONGEST_MESSAGE));
        }

        private void report(TestIdentifier test, String outcome, String message) {
            TestSource source = test.getSource().orElse(null);
            Map<String, Object> result = new LinkedHashMap<>();
            result.put("class", className);
            result.put("method", source instanceof MethodSource ? ((MethodSource) source).getMethodName() : "");
            result.put("test", test.getDisplayName());
            result.put("outcome", outcome);
            result.put("message", message);
            Long begin = begins.get(test.getUniqueId());
            result.put("seconds", begin == null ? 0 : (System.nanoTime() - begin) / 10_000_000 / 100.0);
            print(results, result);
        }
    }
}
