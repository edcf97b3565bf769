package kafka.server;

import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.mockito.MockedConstruction;
import org.mockito.Mockito;

import java.util.concurrent.CompletableFuture;

/**
 * Lets QuorumTestHarness make a controller that does nothing, before KRaftQuorumImplementation replaces it anyway. A
 * real one takes most of the time of a short test.
 */
public final class ControllersAreNotStarted implements BeforeEachCallback, AfterEachCallback {
    private MockedConstruction<ControllerServer> construction;

    @Override
    public void beforeEach(ExtensionContext context) {
        if (QuorumTestHarness.class.isAssignableFrom(context.getRequiredTestClass())) {
            construction = Mockito.mockConstruction(ControllerServer.class, (controller, call) -> {
                Mockito.when(controller.config()).thenReturn(((SharedServer) call.arguments().get(0)).controllerConfig());
                Mockito.when(controller.bootstrapMetadata()).thenReturn((BootstrapMetadata) call.arguments().get(2));
                Mockito.when(controller.socketServerFirstBoundPortFuture()).thenReturn(new CompletableFuture<>());
            });
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        if (construction != null) {
            construction.close();
            construction = null;
        }
    }
}
