import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words with Kafka Streams, exactly once (version 2), in stores in memory with change logs.
 *
 * <p>Arguments: BOOTSTRAP APPLICATION INPUT OUTPUT STATE_DIR, "streams" for the protocol of KIP-1071, and an instance
 * id. Each word of each record of INPUT makes one record in OUTPUT: the word is its key, its value the number of times
 * that it has come, as text. A thread that fails is replaced. It ends at the end of its standard input.
 *
 * <p>Events, one line of JSON each: state (with its name: RUNNING is what one waits for), error (text), closed.
 */
public final class WordCount {
    private WordCount() {}

    /** Counts until standard input ends. */
    public static void main(String[] arguments) throws IOException {
        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
                Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long());
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> List.of(line.toLowerCase(Locale.ROOT).split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(counts)
                .toStream()
                .mapValues(count -> count.toString())
                .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        run(builder.build(), properties(arguments));
    }

    /** Runs a topology until standard input ends, and ends the program. */
    static void run(Topology topology, Properties properties) throws IOException {
        KafkaStreams streams = new KafkaStreams(topology, properties);
        streams.setUncaughtExceptionHandler(failure -> {
            Json.event("error", "text", failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> Json.event("state", "name", now));
        streams.start();
        while (System.in.read() >= 0) {
            // What it says does not matter.
        }
        streams.close(Duration.ofSeconds(20)); // not longer: the broker may be gone for good
        Json.event("closed");
        System.exit(0);
    }

    /** The settings, exactly once. */
    static Properties properties(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("state.dir", arguments[4]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("replication.factor", "1");
        properties.put("num.stream.threads", "1");
        properties.put("statestore.cache.max.bytes", "0"); // or it leaves out counts that are soon outdated
        properties.put("reconnect.backoff.max.ms", "200");
        if (arguments.length > 5) {
            properties.put("group.protocol", arguments[5]); // the broker decides on sessions and heartbeats
        } else {
            properties.put("consumer.session.timeout.ms", "6000");
            properties.put("consumer.heartbeat.interval.ms", "500");
        }
        if (arguments.length > 6) {
            properties.put("group.instance.id", arguments[6]);
        }
        return properties;
    }
}
