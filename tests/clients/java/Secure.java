import java.io.FileReader;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One job with the properties of a file, which say who the client is.
 *
 * <p>Arguments: the file, and a job: "roundtrip TOPIC", "scram USER PASSWORD" or "token".
 */
public final class Secure {
    private Secure() {}

    /** Does the job, and says what came of it. */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        try {
            switch (arguments[1]) {
                case "roundtrip" -> roundTrip(properties, arguments[2]);
                case "scram" -> scram(properties, arguments[2], arguments[3]);
                case "token" -> token(properties);
                default -> throw new IllegalArgumentException(arguments[1]);
            }
        } catch (ExecutionException error) {
            failed(error.getCause());
        } catch (RuntimeException error) {
            failed(error);
        }
        Json.event("closed");
    }

    private static void failed(Throwable failure) {
        Throwable error = failure;
        while (error.getCause() != null && error.getMessage().startsWith("Failed to c")) {
            error = error.getCause();
        }
        Json.event("failed", "error", error.getClass().getSimpleName(), "message", error.getMessage());
    }

    private static void roundTrip(Properties properties, String topic) throws Exception {
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 3; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "value " + i)).get();
            }
        }
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int count = 0;
            while (count < 3) {
                for (var each : consumer.poll(Duration.ofSeconds(1))) {
                    Json.event("read", "value", each.value());
                    count++;
                }
            }
        }
    }

    private static void scram(Properties properties, String user, String password) throws Exception {
        try (Admin admin = Admin.create(properties)) {
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, password))).all().get();
            var told = admin.describeUserScramCredentials(List.of(user)).description(user).get();
            Json.event("stored", "user", told.name(), "iterations", (long) told.credentialInfos().get(0).iterations());
        }
    }

    private static void token(Properties properties) throws Exception {
        try (Admin admin = Admin.create(properties)) {
            var token = admin.createDelegationToken().delegationToken().get();
            String hmac = Base64.getEncoder().encodeToString(token.hmac());
            int count = admin.describeDelegationToken().delegationTokens().get().size();
            Json.event("token", "id", token.tokenInfo().tokenId(), "hmac", hmac, "count", (long) count);
            admin.renewDelegationToken(token.hmac()).expiryTimestamp().get();
        }
    }
}
