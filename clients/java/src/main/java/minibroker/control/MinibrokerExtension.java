package minibroker.control;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import org.junit.platform.commons.support.AnnotationSupport;

/** The extension of {@link MinibrokerTest}. */
final class MinibrokerExtension
        implements BeforeAllCallback, BeforeEachCallback, ParameterResolver, TestExecutionExceptionHandler,
            TestTemplateInvocationContextProvider {
    private static final Map<MinibrokerTest, Minibroker> BROKERS = new ConcurrentHashMap<>();

    /** Returns the annotation of a class or of one that encloses it. */
    static Optional<MinibrokerTest> find(Class<?> type) {
        return type == null ? Optional.empty()
            : AnnotationSupport.findAnnotation(type, MinibrokerTest.class).or(() -> find(type.getEnclosingClass()));
    }

    /** Returns the broker of an annotation, which is started if it has none. */
    static Minibroker broker(MinibrokerTest test) {
        return BROKERS.computeIfAbsent(test, key -> {
            Minibroker.Options options = Minibroker.options().arguments(key.arguments());
            for (String topic : key.topics()) {
                options.topic(topic);
            }
            return options.start();
        });
    }

    private static Minibroker broker(ExtensionContext context) {
        return broker(find(context.getRequiredTestClass()).orElseThrow());
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        broker(context);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (find(context.getRequiredTestClass()).orElseThrow().reset() || supportsTestTemplate(context)) {
            broker(context).control().reset();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == Minibroker.class || type == ControlClient.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Minibroker broker = broker(context);
        return parameter.getParameter().getType() == Minibroker.class ? broker : broker.control();
    }

    /** Turns a wait in vain into a failure of the test: JUnit counts other exceptions as errors. */
    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable thrown) throws Throwable {
        if (!(thrown instanceof ControlException it && List.of("timeout", "unexpected").contains(it.code()))) {
            throw thrown;
        }
        AssertionError failure = new AssertionError(thrown.getMessage());  // with it as the cause, JUnit prints it twice
        failure.setStackTrace(thrown.getStackTrace());
        throw failure;
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
    private record ChaosRun(KafkaChaos chaos, long seed)
            implements TestTemplateInvocationContext, BeforeTestExecutionCallback, AfterTestExecutionCallback {
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
            broker(context).control().startChaos(Map.of(
                "seed", seed,
                "profile", chaos.profile(),
                "only", List.of(chaos.only()),
                "without", List.of(chaos.without())));
        }

        @Override
        public void afterTestExecution(ExtensionContext context) {
            List<String> lines = broker(context).control().stopChaos().report();
            lines.stream().filter(line -> line.startsWith("not exercised"))
                .forEach(line -> System.out.println(context.getDisplayName() + ": " + line));
            String report = String.join(System.lineSeparator(), lines)
                + System.lineSeparator() + "repeat it: -Dminibroker.chaos.seed=" + seed;
            context.getExecutionException().ifPresent(failure -> failure.addSuppressed(new AssertionError(report)));
        }
    }
}
