import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** What came with releases 2.5 to 3.7. */
final class NewestChecks {
    private NewestChecks() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("max-timestamp", () -> {
            String topic = Matrix.newTopic("max-timestamp");
            for (long time : List.of(3_000L, 9_000L, 6_000L)) {
                Matrix.sendAll(Map.of(), List.of(new ProducerRecord<>(topic, 0, time, null, "v")));
            }
            TopicPartition partition = new TopicPartition(topic, 0);
            long offset = AdminChecks.admin().listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get().offset();
            Matrix.that(offset == 1, offset);
        });
        checks.put("features", () -> {
            String found = AdminChecks.admin().describeFeatures().featureMetadata().get().toString();
            Matrix.that(found.contains("metadata.version"), found);
        });
        checks.put("quorum", () -> Matrix.that(
            !AdminChecks.admin().describeMetadataQuorum().quorumInfo().get().voters().isEmpty(), "it has no voters"));
        checks.put("quotas", NewestChecks::quotas);
        checks.put("scram", NewestChecks::scram);
        checks.put("producers", NewestChecks::producers);
        checks.put("transactions", NewestChecks::transactions);
        checks.put("abort-transaction", NewestChecks::abortTransaction);
        checks.put("fence-producers", NewestChecks::fenceProducers);
        checks.put("config-resources", () -> AdminChecks.admin().listClientMetricsResources().all().get());
        checks.put("alter-group-offsets", () -> {
            String group = LaterChecks.group("alter-group-offsets");
            TopicPartition partition = new TopicPartition(Matrix.prefix + "-alter-group-offsets", 0);
            AdminChecks.admin().alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(2))).all().get();
            Matrix.that(LaterChecks.committed(group, "alter-group-offsets") == 2, "not 2");
        });
        checks.put("describe-topics", () -> {
            String topic = Matrix.newTopic("describe-topics", 3);
            TopicDescription found = AdminChecks.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            Matrix.that(found.partitions().size() == 3 && !found.topicId().equals(Uuid.ZERO_UUID), found);
            String name = AdminChecks.admin().describeTopics(org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(found.topicId())))
                .allTopicIds().get().get(found.topicId()).name();
            Matrix.that(name.equals(topic), name);
        });
        checks.put("describe-configs", NewestChecks::describeConfigs);
    }

    private static void quotas() throws Exception {
        String user = Matrix.prefix + "-quotas";
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
        ClientQuotaFilter filter = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, user)));
        AdminChecks.admin().alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0))))).all().get();
        AdminChecks.eventually(() -> AdminChecks.admin().describeClientQuotas(filter).entities(),
            found -> found.containsKey(entity) && found.get(entity).get("producer_byte_rate") == 1_000_000.0);
        AdminChecks.admin().alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
        AdminChecks.eventually(() -> AdminChecks.admin().describeClientQuotas(filter).entities(), Map::isEmpty);
    }

    private static void scram() throws Exception {
        String user = Matrix.prefix + "-scram";
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
        AdminChecks.admin().alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
        AdminChecks.eventually(() -> AdminChecks.admin().describeUserScramCredentials().all(),
            found -> found.containsKey(user) && found.get(user).credentialInfos().equals(List.of(info)));
        AdminChecks.admin().alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))).all().get();
    }

    private static void producers() throws Exception {
        String topic = Matrix.newTopic("producers");
        Matrix.send(topic, Map.of("enable.idempotence", true), "v");
        TopicPartition partition = new TopicPartition(topic, 0);
        List<ProducerState> found = AdminChecks.admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        Matrix.that(found.size() == 1, found);
    }

    private static void transactions() throws Exception {
        String topic = Matrix.newTopic("transactions");
        String id = Matrix.prefix + "-transactions";
        try (KafkaProducer<String, String> producer = Matrix.transactional("transactions")) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "v")).get();
            AdminChecks.eventually(() -> AdminChecks.admin().listTransactions().all(), found -> found.toString().contains(id));
            String found = AdminChecks.admin().describeTransactions(List.of(id)).description(id).get().toString();
            Matrix.that(found.contains(topic) && found.toLowerCase(java.util.Locale.ROOT).contains("ongoing"), found);
            producer.commitTransaction();
        }
    }

    private static void abortTransaction() throws Exception {
        String topic = Matrix.newTopic("abort-transaction");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = Matrix.transactional("abort-transaction")) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "v")).get();
            ProducerState state = AdminChecks.admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            AdminChecks.admin().abortTransaction(new AbortTransactionSpec(
                partition, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            ProducerState after = AdminChecks.admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            Matrix.that(after.currentTransactionStartOffset().isEmpty(), after);
        }
    }

    private static void fenceProducers() throws Exception {
        String topic = Matrix.newTopic("fence-producers");
        try (KafkaProducer<String, String> producer = Matrix.transactional("fence-producers")) {
            AdminChecks.admin().fenceProducers(List.of(Matrix.prefix + "-fence-producers")).all().get();
            producer.beginTransaction();
            try {
                producer.send(new ProducerRecord<>(topic, 0, null, "v")).get();
                producer.commitTransaction();
                throw new AssertionError("it goes on");
            } catch (ExecutionException | ProducerFencedException expected) {
                String kind = expected.toString();
                Matrix.that(kind.contains("Fenced") || kind.contains("InvalidProducerEpoch"), expected);
            }
        }
    }

    private static void describeConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Matrix.newTopic("describe-configs"));
        Matrix.that(AdminChecks.config(topic, "cleanup.policy").equals("delete"), "another value");
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeDocumentation(true).includeSynonyms(true);
        ConfigEntry entry = AdminChecks.admin().describeConfigs(List.of(topic), all).all().get().get(topic).get("segment.bytes");
        Matrix.that(entry.documentation() != null && !entry.synonyms().isEmpty(), entry);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, AdminChecks.brokers().get(0).toString());
        Matrix.that(AdminChecks.config(broker, "log.retention.hours") != null, "the broker has no log.retention.hours");
        ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, AdminChecks.brokers().get(0).toString());
        Matrix.that(!AdminChecks.admin().describeConfigs(List.of(logger)).all().get().get(logger).entries().isEmpty(), "no loggers");
    }
}
