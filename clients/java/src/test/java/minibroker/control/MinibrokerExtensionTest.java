package minibroker.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;

@MinibrokerTest(topics = {"orders:3", "invoices"}, arguments = {"--brokers", "2"}, reset = true)
class MinibrokerExtensionTest {
    private final Minibroker broker;

    MinibrokerExtensionTest(Minibroker broker) {
        this.broker = broker;
    }

    private static List<String> topics(ControlClient control) {
        return control.listTopics(null, 10).topics().stream().map(topic -> topic.name() + ":" + topic.partitions()).toList();
    }

    @RepeatedTest(2)
    void eachTestHasTheTopicsOfTheAnnotationAlone(ControlClient control) {
        assertEquals(List.of("invoices:1", "orders:3"), topics(control));
        assertEquals(2, broker.bootstrapServers().split(",").length);
        control.createTopic(NewTopic.named("of-one-test"));
    }

    @Test
    void aWaitInVainIsAFailureOfTheTest() {
        MinibrokerExtension extension = new MinibrokerExtension();
        for (String code : List.of("timeout", "unexpected")) {
            ControlException refused = new ControlException("POST /topics", 409, code, "no record", null);
            assertEquals(refused.getMessage(), assertThrows(AssertionError.class,
                () -> extension.handleTestExecutionException(null, refused)).getMessage());
        }
        ControlException refused = new ControlException("GET /topics", 404, "not_found", "no topic", null);
        assertSame(refused, assertThrows(ControlException.class, () -> extension.handleTestExecutionException(null, refused)));
    }

    @Nested
    class Inner {
        @Test
        void anInnerClassHasTheBrokerOfTheOuterOne(Minibroker inner) {
            assertSame(broker, inner);
            assertEquals(List.of("invoices:1", "orders:3"), topics(inner.control()));
        }
    }
}
