import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Utils;

/**
 * What Java and Kafka make of texts, line by line: the name of an operation and its arguments, in base64 of UTF-16 (a
 * text may be no valid UTF-8), with tabs between them. The answer is "!" for a refusal, else "=" and the result.
 */
public class JavaTextOracle {
    // Charsets would replace halves of surrogate pairs.
    static String text(String field) {
        CharBuffer units = ByteBuffer.wrap(Base64.getDecoder().decode(field)).asCharBuffer();
        return units.toString();
    }

    static String shown(String result) {
        ByteBuffer bytes = ByteBuffer.allocate(2 * result.length());
        bytes.asCharBuffer().put(result);
        return Base64.getEncoder().encodeToString(bytes.array());
    }

    static String answer(String operation, List<String> given) {
        String first = given.get(0);
        switch (operation) {
            case "coordinator":
                return String.valueOf(Utils.abs(first.hashCode()) % Integer.parseInt(given.get(1)));
            case "producer":
                byte[] key = first.getBytes(StandardCharsets.UTF_8);
                return String.valueOf(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(given.get(1))));
            case "order":
                return String.valueOf(Integer.signum(first.compareTo(given.get(1))));
            case "trim":
                return shown(first.trim());
            case "equal":
                return String.valueOf(first.equalsIgnoreCase(given.get(1)));
            case "long":
                return String.valueOf(Long.parseLong(first));
            case "int":
                return String.valueOf(Integer.parseInt(first));
            case "double":
                return String.valueOf(Double.doubleToLongBits(Double.parseDouble(first)));
            case "uuid":
                return String.valueOf(Uuid.fromString(first).hashCode());
            case "duration":
                return String.valueOf(Duration.parse(first).toMillis());
            case "ids":
                return String.valueOf(Integer.signum(Uuid.fromString(first).compareTo(Uuid.fromString(given.get(1)))));
            case "partition":
                return String.valueOf(new TopicPartition(first, Integer.parseInt(given.get(1))).hashCode());
            default:
                Object value = ConfigDef.parseType("key", first, ConfigDef.Type.valueOf(operation));
                return shown(ConfigDef.convertToString(value, ConfigDef.Type.valueOf(operation)));
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            List<String> given = new ArrayList<>();
            for (int i = 1; i < fields.length; i++) {
                given.add(text(fields[i]));
            }
            try {
                System.out.println("=" + answer(fields[0], given));
            } catch (NumberFormatException | ConfigException | DateTimeParseException refused) {
                System.out.println("!");
            }
            System.out.flush();
        }
    }
}
