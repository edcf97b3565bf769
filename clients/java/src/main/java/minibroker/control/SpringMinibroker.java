package minibroker.control;

import java.util.List;
import java.util.Map;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;

/** Sets spring.kafka.bootstrap-servers in the contexts of classes with {@link MinibrokerTest}. Spring finds it. */
public final class SpringMinibroker implements ContextCustomizerFactory {
    @Override
    public ContextCustomizer createContextCustomizer(Class<?> type, List<ContextConfigurationAttributes> attributes) {
        return MinibrokerExtension.find(type).map(Address::new).orElse(null);
    }

    /** Equal ones share a context. */
    private record Address(MinibrokerTest test) implements ContextCustomizer {
        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration configuration) {
            Map<String, Object> properties =
                Map.of("spring.kafka.bootstrap-servers", MinibrokerExtension.broker(test).bootstrapServers());
            context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("minibroker", properties));
        }
    }
}
