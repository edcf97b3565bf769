import java.io.IOException;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Keeps a table of orders and one of payments, joins them, and counts the orders that are paid, exactly once.
 *
 * <p>Arguments and events are those of WordCount. A record of INPUT is "order NUMBER" or "payment NUMBER". A pair makes
 * two records in OUTPUT: its number with "1"; and, with the count so far as value, the last digit of its number behind a
 * "#".
 */
public final class Ledger {
    private Ledger() {}

    /** Joins and counts until standard input ends. */
    public static void main(String[] arguments) throws IOException {
        Properties properties = WordCount.properties(arguments);
        properties.put("default.dsl.store", "in_memory");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties)));
        KStream<String, String> lines = builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()));
        KTable<String, String> paid = of("order", lines).join(of("payment", lines), (order, payment) -> "1");
        Produced<String, String> texts = Produced.with(Serdes.String(), Serdes.String());
        paid.toStream().to(arguments[3], texts);
        paid.groupBy(
                        (number, one) -> KeyValue.pair("#" + number.substring(number.length() - 1), one),
                        Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> count.toString())
                .to(arguments[3], texts);
        WordCount.run(builder.build(), properties);
    }

    private static KTable<String, String> of(String kind, KStream<String, String> lines) {
        return lines.filter((key, line) -> line.split(" ")[0].equals(kind))
                .map((key, line) -> KeyValue.pair(line.split(" ")[1], line))
                .toTable();
    }
}
