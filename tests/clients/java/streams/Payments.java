import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Joins orders with their payments, and counts the ones that are paid in windows of time, exactly once.
 *
 * <p>Arguments and events are those of WordCount. A record of INPUT is "order NUMBER TIME" or "payment NUMBER TIME",
 * where TIME is in ms. A pair makes two records in OUTPUT: its number with "1"; and, with the count so far as value, the
 * last digit of its number and the start of its window of ten seconds, with "@" between them.
 */
public final class Payments {
    private static final Duration WINDOW = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofDays(1); // the two partitions of INPUT do not go in step

    private Payments() {}

    /** Joins and counts until standard input ends. */
    public static void main(String[] arguments) throws IOException {
        Properties properties = WordCount.properties(arguments);
        properties.put("default.dsl.store", "in_memory");
        properties.put("producer.transaction.timeout.ms", "6000"); // what an instance leaves open blocks others so long
        StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties)));
        Consumed<String, String> timed = Consumed.with(Serdes.String(), Serdes.String())
                .withTimestampExtractor((record, partitionTime) -> Long.parseLong(words(record.value())[2]));
        KStream<String, String> lines = builder.stream(arguments[2], timed);
        KStream<String, String> paid = of("order", lines)
                .join(
                        of("payment", lines),
                        (order, payment) -> "1",
                        JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, GRACE),
                        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()));
        Produced<String, String> texts = Produced.with(Serdes.String(), Serdes.String());
        paid.to(arguments[3], texts);
        paid.groupBy(
                        (number, one) -> number.substring(number.length() - 1),
                        Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
                .count()
                .toStream((digit, count) -> digit.key() + "@" + digit.window().start())
                .mapValues(count -> count.toString())
                .to(arguments[3], texts);
        WordCount.run(builder.build(), properties);
    }

    private static KStream<String, String> of(String kind, KStream<String, String> lines) {
        return lines.filter((key, line) -> words(line)[0].equals(kind))
                .map((key, line) -> KeyValue.pair(words(line)[1], line));
    }

    private static String[] words(Object line) {
        return line.toString().split(" ");
    }
}
