import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group, driven by lines; each is answered with one event.
 *
 * <p>Arguments: BOOTSTRAP GROUP TOPIC MODE, where MODE is implicit or explicit. The lines are "poll MS", "acknowledge
 * TYPE OFFSET...", "commit", "heard", which tells what the listener has heard of acknowledgements since it was last
 * asked, and "wakeup", which wakes the poll that follows it. The end of its input closes it.
 */
public final class Sharer {
    private final KafkaShareConsumer<String, String> consumer;
    private final Map<Long, ConsumerRecord<String, String>> polled = new LinkedHashMap<>();
    private final List<Object> heard = new ArrayList<>();

    private Sharer(KafkaShareConsumer<String, String> consumer) {
        this.consumer = consumer;
        consumer.setAcknowledgementCommitCallback((offsets, error) -> offsets.values().forEach(each -> heard.add(
                List.of(List.copyOf(new TreeSet<>(each)), error == null ? "" : error.getClass().getSimpleName()))));
    }

    /** Serves lines until there are no more. */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("share.acknowledgement.mode", arguments[3]);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties);
                BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            consumer.subscribe(List.of(arguments[2]));
            Sharer sharer = new Sharer(consumer);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                sharer.serve(line.split(" "));
            }
        }
        Json.event("closed");
    }

    private void serve(String[] words) {
        try {
            switch (words[0]) {
                case "poll" -> poll(Long.parseLong(words[1]));
                case "acknowledge" -> acknowledge(words);
                case "commit" -> commit();
                case "heard" -> {
                    Json.event("heard", "answers", List.copyOf(heard));
                    heard.clear();
                }
                case "wakeup" -> {
                    consumer.wakeup();
                    Json.event("woken");
                }
                default -> throw new IllegalArgumentException(words[0]);
            }
        } catch (WakeupException error) {
            Json.event("wakeup");
        } catch (IllegalStateException error) {
            Json.event("illegal");
        }
    }

    private void poll(long timeoutMs) {
        long end = System.nanoTime() + timeoutMs * 1_000_000;
        List<Object> found = new ArrayList<>();
        polled.clear();
        do {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(timeoutMs))) {
                polled.put(each.offset(), each);
                found.add(List.of(each.offset(), each.value(), (long) each.deliveryCount().orElse((short) -1)));
            }
        } while (found.isEmpty() && System.nanoTime() < end);
        Json.event("polled", "records", found);
    }

    private void acknowledge(String[] words) {
        for (int index = 2; index < words.length; index++) {
            consumer.acknowledge(polled.get(Long.parseLong(words[index])), AcknowledgeType.valueOf(words[1]));
        }
        Json.event("acknowledged");
    }

    private void commit() {
        List<Object> errors = new ArrayList<>();
        Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync();
        outcomes.values().forEach(each -> each.ifPresent(error -> errors.add(error.getClass().getSimpleName())));
        Json.event("committed", "partitions", (long) outcomes.size(), "errors", errors);
    }
}
