package minibroker.control;

import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A JUnit 5 extension that starts a broker when it is first needed, and stops it after the last test of the run.
 *
 * <p>Keep it in a static field with {@code @RegisterExtension}. Classes that share the field share the broker.
 */
public final class MinibrokerExtension implements BeforeAllCallback, BeforeEachCallback {
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
        if (resets) {
            control().reset();
        }
    }

    private synchronized Minibroker broker() {
        if (broker == null) {
            broker = options.start();
        }
        return broker;
    }
}
