package shop;

import io.quarkus.test.junit.QuarkusTest;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.junit.jupiter.api.Test;

/** Uses the broker that the Dev Services have started. */
@QuarkusTest
class OrdersTest {
    @ConfigProperty(name = "kafka.bootstrap.servers")
    String servers;

    @Test
    void consumesAnOrder() throws Exception {
        Map<String, Object> common = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "a new order")).get();
        }
        Map<String, Object> options =
            Map.of("bootstrap.servers", servers, "group.id", "billing", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecords<String, String> records;
            do {
                records = consumer.poll(Duration.ofSeconds(1));
            } while (records.isEmpty());
            records.forEach(record -> System.out.println("consumed " + record.value()));
        }
    }
}
