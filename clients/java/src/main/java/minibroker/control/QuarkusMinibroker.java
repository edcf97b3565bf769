package minibroker.control;

import io.smallrye.config.ConfigSourceContext;
import io.smallrye.config.ConfigSourceFactory;
import io.smallrye.config.ConfigValue;
import java.util.List;
import java.util.Set;
import org.eclipse.microprofile.config.spi.ConfigSource;

/**
 * Starts a broker when Quarkus asks for kafka.bootstrap.servers. Quarkus finds it.
 *
 * <p>Since the address is configured, the Dev Services start no container. The property minibroker.topics has the topics,
 * separated by spaces, and minibroker.control the URL of the control plane.
 */
public final class QuarkusMinibroker implements ConfigSourceFactory {
    private static final String ADDRESS = "kafka.bootstrap.servers";
    private static final String CONTROL = "minibroker.control";

    @Override
    public Iterable<ConfigSource> getConfigSources(ConfigSourceContext context) {
        ConfigValue topics = context.getValue("minibroker.topics");
        return List.of(new Source(topics == null || topics.getValue() == null ? "" : topics.getValue()));
    }

    private record Source(String topics) implements ConfigSource {
        @Override
        public Set<String> getPropertyNames() {
            return Set.of(ADDRESS, CONTROL);
        }

        /** Quarkus loads this class several times, so the addresses are kept in properties of the system. */
        @Override
        public String getValue(String name) {
            if (!getPropertyNames().contains(name)) {
                return null;
            }
            synchronized (System.getProperties()) {
                if (System.getProperty(CONTROL) == null) {
                    Minibroker.Options options = Minibroker.options();
                    topics.lines().flatMap(line -> List.of(line.strip().split("\\s+")).stream())
                        .filter(topic -> !topic.isEmpty()).forEach(options::topic);
                    Minibroker broker = options.start();
                    System.setProperty(ADDRESS, broker.bootstrapServers());
                    System.setProperty(CONTROL, broker.control().url());
                }
            }
            return System.getProperty(name);
        }

        @Override
        public String getName() {
            return "minibroker";
        }
    }
}
