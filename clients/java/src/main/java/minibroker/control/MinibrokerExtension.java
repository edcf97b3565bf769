package minibroker.control;

import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;

/**
 * A JUnit 5 extension that starts a broker when it is first needed, and stops it after the last test of the run.
 *
 * <p>Keep it in a static field with {@code @RegisterExtension}. Classes that share the field share the broker.
 */
public final class MinibrokerExtension
        implements BeforeAllCallback, BeforeEachCallback, TestTemplateInvocationContextProvider {
    private final Minibroker.Options options;
    private boolean resets;
    private Minibroker broker;

    private MinibrokerExtension(Minibroker.Options options) {
        this.options = options;
    }

    /** Returns an extension for a broker with these options. */
    public static MinibrokerExtension of(Minibroker.Options options) {
        return new MinibrokerExtension(options);
    }

    /** Resets the broker before each test. Only the topics of the start exist then, without records. */
    public MinibrokerExtension resetBeforeEach() {
        resets = true;
        return this;
    }

    public String bootstrapServers() {
        return broker().bootstrapServers();
    }

    /** Returns the address of the schema registry, or null without {@link Minibroker.Options#registry}. */
    public String registryUrl() {
        return broker().registryUrl();
    }

    public ControlClient control() {
        return broker().control();
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        Minibroker started = broker();
        context.getRoot().getStore(ExtensionContext.Namespace.create(MinibrokerExtension.class, this)).getOrComputeIfAbsent(
            "end", key -> (ExtensionContext.Store.CloseableResource) started::close);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (resets || supportsTestTemplate(context)) {
            control().reset();
        }
    }

    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        return context.getTestMethod().filter(method -> method.isAnnotationPresent(KafkaChaos.class)).isPresent();
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(ExtensionContext context) {
        KafkaChaos chaos = context.getRequiredTestMethod().getAnnotation(KafkaChaos.class);
        Long seed = Long.getLong("minibroker.chaos.seed");
        LongStream seeds = seed == null ? LongStream.range(0, chaos.runs()) : LongStream.of(seed);
        return seeds.mapToObj(each -> new ChaosRun(chaos, each));
    }

    /** One run of a test under chaos. A failure gets the report as a suppressed exception. */
    private final class ChaosRun
            implements TestTemplateInvocationContext, BeforeTestExecutionCallback, AfterTestExecutionCallback {
        private final KafkaChaos chaos;
        private final long seed;

        ChaosRun(KafkaChaos chaos, long seed) {
            this.chaos = chaos;
            this.seed = seed;
        }

        @Override
        public String getDisplayName(int index) {
            return "chaos from seed " + seed;
        }

        @Override
        public List<Extension> getAdditionalExtensions() {
            return List.of(this);
        }

        @Override
        public void beforeTestExecution(ExtensionContext context) {
            control().startChaos(Map.of(
                    "seed", seed,
                    "profile", chaos.profile(),
                    "only", List.of(chaos.only()),
                    "without", List.of(chaos.without())));
        }

        @Override
        public void afterTestExecution(ExtensionContext context) {
            String report = String.join(System.lineSeparator(), control().stopChaos().report());
            context.getExecutionException().ifPresent(failure -> failure.addSuppressed(new AssertionError(report)));
        }
    }

    private synchronized Minibroker broker() {
        if (broker == null) {
            broker = options.start();
        }
        return broker;
    }
}
