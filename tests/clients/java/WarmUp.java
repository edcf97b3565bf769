import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Loads what the other programs need for their start; nobody listens at the address that it asks. */
public final class WarmUp {
    private WarmUp() {}

    /** Opens a consumer and a producer, and closes them again. */
    public static void main(String[] arguments) {
        Map<String, Object> properties = Map.of(
                "bootstrap.servers", "127.0.0.1:1",
                "group.id", "group",
                "transactional.id", "id");
        var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        consumer.subscribe(List.of("topic"));
        consumer.poll(Duration.ofMillis(100));
        producer.close();
        consumer.close();
        Json.event("closed");
    }
}
