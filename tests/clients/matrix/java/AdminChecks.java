import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.DelegationTokenDisabledException;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.UnsupportedByAuthenticationException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** The admin client. */
final class AdminChecks {
    private AdminChecks() {}

    static void add(Map<String, Matrix.Check> checks) {
        checks.put("list-topics", () -> {
            String topic = Matrix.newTopic("list-topics");
            Matrix.that(admin().listTopics().names().get().contains(topic), "it is not there");
        });
        checks.put("describe-topics", () -> {
            String topic = Matrix.newTopic("describe-topics", 3);
            TopicDescription found = admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            Matrix.that(found.partitions().size() == 3 && !found.topicId().equals(Uuid.ZERO_UUID), found);
            String name = admin().describeTopics(org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(found.topicId())))
                .allTopicIds().get().get(found.topicId()).name();
            Matrix.that(name.equals(topic), name);
        });
        checks.put("describe-configs", AdminChecks::describeConfigs);
        checks.put("incremental-configs", AdminChecks::incrementalConfigs);
        checks.put("create-partitions", () -> {
            String topic = Matrix.newTopic("create-partitions");
            admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            eventually(() -> admin().describeTopics(List.of(topic)).allTopicNames(), found -> found.get(topic).partitions().size() == 3);
        });
        checks.put("delete-records", () -> {
            String topic = Matrix.newTopic("delete-records");
            Matrix.send(topic, Map.of(), "1", "2", "3");
            Map<TopicPartition, RecordsToDelete> asked = Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(2));
            long low = admin().deleteRecords(asked).lowWatermarks().get(new TopicPartition(topic, 0)).get().lowWatermark();
            Matrix.that(low == 2, low);
        });
        groups(checks);
        checks.put("max-timestamp", () -> {
            String topic = Matrix.newTopic("max-timestamp");
            for (long time : List.of(3_000L, 9_000L, 6_000L)) {
                Matrix.sendAll(Map.of(), List.of(new ProducerRecord<>(topic, 0, time, null, "v")));
            }
            TopicPartition partition = new TopicPartition(topic, 0);
            long offset = admin().listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get().offset();
            Matrix.that(offset == 1, offset);
        });
        checks.put("acls", AdminChecks::acls);
        checks.put("quotas", AdminChecks::quotas);
        checks.put("scram", AdminChecks::scram);
        checks.put("log-dirs", () -> {
            String topic = Matrix.newTopic("log-dirs");
            eventually(() -> admin().describeLogDirs(brokers()).allDescriptions(), found -> found.toString().contains(topic));
        });
        checks.put("replica-log-dirs", () -> {
            String topic = Matrix.newTopic("replica-log-dirs");
            int broker = brokers().get(0);
            String folder = admin().describeLogDirs(brokers()).allDescriptions().get().get(broker).keySet().iterator().next();
            admin().alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, broker), folder)).all().get();
        });
        checks.put("reassignments", () -> {
            TopicPartition partition = new TopicPartition(Matrix.newTopic("reassignments"), 0);
            admin().alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(brokers().subList(0, 1)))))
                .all().get();
            eventually(() -> admin().listPartitionReassignments(Set.of(partition)).reassignments(), Map::isEmpty);
        });
        checks.put("elect-leaders", () -> {
            TopicPartition partition = new TopicPartition(Matrix.newTopic("elect-leaders"), 0);
            Optional<Throwable> found = admin().electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition);
            Matrix.that(found.isPresent() && found.get() instanceof ElectionNotNeededException, found);
        });
        checks.put("cluster", () -> {
            Matrix.that(!admin().describeCluster().clusterId().get().isEmpty(), "it has no id");
            Matrix.that(admin().describeCluster().controller().get() != null, "it has no controller");
        });
        checks.put("features", () -> {
            String found = admin().describeFeatures().featureMetadata().get().toString();
            Matrix.that(found.contains("metadata.version"), found);
        });
        checks.put("quorum", () -> Matrix.that(
            !admin().describeMetadataQuorum().quorumInfo().get().voters().isEmpty(), "it has no voters"));
        checks.put("producers", AdminChecks::producers);
        checks.put("transactions", AdminChecks::transactions);
        checks.put("abort-transaction", AdminChecks::abortTransaction);
        checks.put("fence-producers", AdminChecks::fenceProducers);
        checks.put("delegation-tokens", () -> refused(
            admin().createDelegationToken().delegationToken(), UnsupportedByAuthenticationException.class, DelegationTokenDisabledException.class));
        checks.put("config-resources", () -> admin().listClientMetricsResources().all().get());
        checks.put("delete-topic", () -> {
            String topic = Matrix.newTopic("delete-topic");
            admin().deleteTopics(List.of(topic)).all().get();
            eventually(() -> admin().listTopics().names(), names -> !names.contains(topic));
        });
    }

    private static void groups(Map<String, Matrix.Check> checks) {
        checks.put("list-groups", () -> {
            String group = group("list-groups");
            Matrix.that(admin().listConsumerGroups().all().get().toString().contains(group), "it is not there");
        });
        checks.put("describe-groups", () -> {
            String group = group("describe-groups");
            String found = admin().describeConsumerGroups(List.of(group)).all().get().get(group).toString();
            Matrix.that(found.toLowerCase(java.util.Locale.ROOT).contains("state=empty"), found);
        });
        checks.put("list-group-offsets", () -> {
            String group = group("list-group-offsets");
            Matrix.that(committed(group, "list-group-offsets") == 1, "not 1");
        });
        checks.put("alter-group-offsets", () -> {
            String group = group("alter-group-offsets");
            TopicPartition partition = new TopicPartition(Matrix.prefix + "-alter-group-offsets", 0);
            admin().alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(2))).all().get();
            Matrix.that(committed(group, "alter-group-offsets") == 2, "not 2");
        });
        checks.put("delete-group-offsets", () -> {
            String group = group("delete-group-offsets");
            TopicPartition partition = new TopicPartition(Matrix.prefix + "-delete-group-offsets", 0);
            admin().deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            Matrix.that(committed(group, "delete-group-offsets") == -1, "it is still there");
        });
        checks.put("remove-members", () -> {
            String topic = Matrix.newTopic("remove-members");
            String group = Matrix.prefix + "-remove-members";
            Map<String, Object> options = new HashMap<>(Matrix.classic());
            options.putAll(Map.of("group.id", group, "group.instance.id", "one"));
            try (KafkaConsumer<String, String> consumer = Matrix.consumer(options)) {
                consumer.subscribe(List.of(topic));
                Matrix.eventually(() -> Matrix.holds(consumer, 1));
            }
            admin().removeMembersFromConsumerGroup(
                group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
            int members = admin().describeConsumerGroups(List.of(group)).all().get().get(group).members().size();
            Matrix.that(members == 0, members);
        });
        checks.put("delete-groups", () -> {
            String group = group("delete-groups");
            admin().deleteConsumerGroups(List.of(group)).all().get();
            Matrix.that(!admin().listConsumerGroups().all().get().toString().contains(group), "it is still there");
        });
    }

    private static Admin admin() {
        return Matrix.admin;
    }

    private static List<Integer> brokers() throws Exception {
        List<Integer> found = new ArrayList<>();
        admin().describeCluster().nodes().get().forEach(node -> found.add(node.id()));
        return found;
    }

    interface Condition<T> {
        boolean holds(T value) throws Exception;
    }

    private interface Asked<T> {
        KafkaFuture<T> get() throws Exception;
    }

    private static <T> void eventually(Asked<T> asked, Condition<T> condition) throws Exception {
        for (int attempt = 0; !condition.holds(asked.get().get()); attempt++) {
            Matrix.that(attempt < 200, "it did not happen in time");
            Thread.sleep(50);
        }
    }

    @SafeVarargs
    private static void refused(KafkaFuture<?> future, Class<? extends Throwable>... kinds) throws Exception {
        try {
            future.get();
        } catch (ExecutionException refusal) {
            for (Class<? extends Throwable> kind : kinds) {
                if (kind.isInstance(refusal.getCause())) {
                    return;
                }
            }
            throw refusal;
        }
        throw new AssertionError("it was not refused");
    }

    /** A group without members that has committed offset 1 of a topic of its name. */
    private static String group(String name) throws Exception {
        String group = Matrix.prefix + "-" + name;
        TopicPartition partition = new TopicPartition(Matrix.newTopic(name), 0);
        try (KafkaConsumer<String, String> consumer = Matrix.consumer(Map.of("group.id", group))) {
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(1)));
        }
        return group;
    }

    private static long committed(String group, String name) throws Exception {
        OffsetAndMetadata found = admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .get(new TopicPartition(Matrix.prefix + "-" + name, 0));
        return found == null ? -1 : found.offset();
    }

    private static String config(ConfigResource resource, String name) throws Exception {
        ConfigEntry found = admin().describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return found == null ? null : found.value();
    }

    private static void describeConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Matrix.newTopic("describe-configs"));
        Matrix.that(config(topic, "cleanup.policy").equals("delete"), "another value");
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeDocumentation(true).includeSynonyms(true);
        ConfigEntry entry = admin().describeConfigs(List.of(topic), all).all().get().get(topic).get("segment.bytes");
        Matrix.that(entry.documentation() != null && !entry.synonyms().isEmpty(), entry);
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, brokers().get(0).toString());
        Matrix.that(config(broker, "log.retention.hours") != null, "the broker has no log.retention.hours");
        ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, brokers().get(0).toString());
        Matrix.that(!admin().describeConfigs(List.of(logger)).all().get().get(logger).entries().isEmpty(), "no loggers");
    }

    private static void alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType kind) throws Exception {
        Collection<AlterConfigOp> operations = List.of(new AlterConfigOp(new ConfigEntry(name, value), kind));
        admin().incrementalAlterConfigs(Map.of(resource, operations)).all().get();
    }

    private static void incrementalConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, Matrix.newTopic("incremental-configs"));
        alter(topic, "retention.ms", "123456789", AlterConfigOp.OpType.SET);
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        for (int attempt = 0; !"delete,compact".equals(config(topic, "cleanup.policy")); attempt++) {
            Matrix.that(attempt < 100, config(topic, "cleanup.policy"));
            Thread.sleep(50);
        }
        Matrix.that(config(topic, "retention.ms").equals("123456789"), "another value");
        alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
        alter(topic, "retention.ms", "", AlterConfigOp.OpType.DELETE);
        for (int attempt = 0; !"604800000".equals(config(topic, "retention.ms")) && !"-1".equals(config(topic, "retention.ms")); attempt++) {
            Matrix.that(attempt < 100, config(topic, "retention.ms"));
            Thread.sleep(50);
        }
    }

    private static void acls() throws Exception {
        AclBinding binding = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, Matrix.prefix + "-acls", PatternType.PREFIXED),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        admin().createAcls(List.of(binding)).all().get();
        eventually(() -> admin().describeAcls(binding.toFilter()).values(), found -> List.of(binding).equals(List.copyOf(found)));
        Collection<AclBinding> deleted = admin().deleteAcls(List.of(binding.toFilter())).all().get();
        Matrix.that(List.of(binding).equals(List.copyOf(deleted)), deleted);
        eventually(() -> admin().describeAcls(binding.toFilter()).values(), Collection::isEmpty);
    }

    private static void quotas() throws Exception {
        String user = Matrix.prefix + "-quotas";
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
        ClientQuotaFilter filter = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, user)));
        admin().alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1_000_000.0))))).all().get();
        eventually(() -> admin().describeClientQuotas(filter).entities(),
            found -> found.containsKey(entity) && found.get(entity).get("producer_byte_rate") == 1_000_000.0);
        admin().alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
        eventually(() -> admin().describeClientQuotas(filter).entities(), Map::isEmpty);
    }

    private static void scram() throws Exception {
        String user = Matrix.prefix + "-scram";
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
        admin().alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
        eventually(() -> admin().describeUserScramCredentials().all(),
            found -> found.containsKey(user) && found.get(user).credentialInfos().equals(List.of(info)));
        admin().alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))).all().get();
    }

    private static void producers() throws Exception {
        String topic = Matrix.newTopic("producers");
        Matrix.send(topic, Map.of("enable.idempotence", true), "v");
        TopicPartition partition = new TopicPartition(topic, 0);
        List<ProducerState> found = admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
        Matrix.that(found.size() == 1, found);
    }

    private static void transactions() throws Exception {
        String topic = Matrix.newTopic("transactions");
        String id = Matrix.prefix + "-transactions";
        try (KafkaProducer<String, String> producer = Matrix.transactional("transactions")) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "v")).get();
            eventually(() -> admin().listTransactions().all(), found -> found.toString().contains(id));
            String found = admin().describeTransactions(List.of(id)).description(id).get().toString();
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
            ProducerState state = admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            admin().abortTransaction(new AbortTransactionSpec(
                partition, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            ProducerState after = admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            Matrix.that(after.currentTransactionStartOffset().isEmpty(), after);
        }
    }

    private static void fenceProducers() throws Exception {
        String topic = Matrix.newTopic("fence-producers");
        try (KafkaProducer<String, String> producer = Matrix.transactional("fence-producers")) {
            admin().fenceProducers(List.of(Matrix.prefix + "-fence-producers")).all().get();
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
}
