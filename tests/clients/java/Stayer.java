import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Clients that stay connected while the state of their broker is replaced; staying.py says what they are asked. */
public final class Stayer {
    private static final Duration POLL = Duration.ofMillis(100);

    private final String bootstrap;
    private final String name;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();
    private final Admin admin;

    private Stayer(Map<String, Object> options) {
        bootstrap = (String) options.get("bootstrap");
        name = (String) options.get("transactional_id");
        admin = Admin.create(properties());
    }

    /** Answers each line of standard input with a line. */
    public static void main(String[] arguments) throws Exception {
        Stayer stayer = new Stayer(Json.parseObject(arguments[0]));
        Json.event("done", "error", null);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    Json.event("done", "error", null, "values", stayer.answer(Json.parseObject(line)));
                } catch (Exception failure) {
                    Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
                    Json.event("done", "error", cause.toString());
                }
            }
        }
        System.exit(0);
    }

    private List<String> answer(Map<String, Object> command) throws Exception {
        String kind = (String) command.get("kind");
        String topic = (String) command.get("topic");
        String value = (String) command.get("value");
        switch ((String) command.get("do")) {
            case "begin" -> {
                producer(kind).beginTransaction();
                send(kind, topic, value);
            }
            case "send" -> send(kind, topic, value);
            case "commit" -> producer(kind).commitTransaction();
            case "read" -> {
                return read(kind, topic, value);
            }
            case "topics" -> {
                List<String> names = new ArrayList<>(admin.listTopics().names().get());
                admin.describeTopics(names).allTopicNames().get();
                return names;
            }
            default -> throw new IllegalArgumentException(command.toString());
        }
        return List.of();
    }

    private void send(String kind, String topic, String value) throws Exception {
        producer(kind).send(new ProducerRecord<>(topic, 0, null, value)).get();
    }

    private List<String> read(String kind, String topic, String until) {
        List<String> values = new ArrayList<>();
        while (!values.contains(until)) {
            for (ConsumerRecord<String, String> record : consumer(kind, topic).poll(POLL)) {
                values.add(record.value());
            }
        }
        if (!kind.equals("assigned") && !kind.equals("strict")) {
            consumer(kind, topic).commitSync();
        }
        return values;
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private KafkaProducer<String, String> producer(String kind) {
        return producers.computeIfAbsent(kind, added -> {
            Properties properties = properties();
            properties.put("enable.idempotence", kind.equals("plain") ? "false" : "true");
            if (kind.equals("transactional")) {
                properties.put("transactional.id", name);
            }
            KafkaProducer<String, String> producer =
                    new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
            if (kind.equals("transactional")) {
                producer.initTransactions();
            }
            return producer;
        });
    }

    private KafkaConsumer<String, String> consumer(String kind, String topic) {
        return consumers.computeIfAbsent(kind, added -> {
            Properties properties = properties();
            boolean isMember = kind.equals("classic") || kind.equals("consumer");
            properties.put("auto.offset.reset", kind.equals("strict") ? "none" : "earliest");
            properties.put("enable.auto.commit", "false");
            if (isMember) {
                properties.put("group.id", name + "-" + kind);
                properties.put("group.protocol", kind);
            }
            KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            if (isMember) {
                consumer.subscribe(List.of(topic));
            } else {
                List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
                consumer.assign(partitions);
                consumer.seekToBeginning(partitions);
            }
            return consumer;
        });
    }
}
