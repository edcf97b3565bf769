package minibroker.control;

import io.micronaut.test.support.TestPropertyProvider;
import io.micronaut.test.support.TestPropertyProviderFactory;
import java.util.Map;

/** Sets kafka.bootstrap.servers for classes with {@link MinibrokerTest}. Micronaut finds it. */
public final class MicronautMinibroker implements TestPropertyProviderFactory {
    @Override
    public TestPropertyProvider create(Map<String, Object> properties, Class<?> type) {
        return () -> MinibrokerExtension.find(type)
            .map(test -> Map.of("kafka.bootstrap.servers", MinibrokerExtension.broker(test).bootstrapServers()))
            .orElse(Map.of());
    }
}
