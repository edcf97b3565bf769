import static java.util.concurrent.TimeUnit.SECONDS;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What web consoles ask for on each of their pages: kafka-ui and AKHQ, which are built on this admin client, and
 * Redpanda Console, which asks the same with franz-go.
 *
 * <p>Arguments: bootstrap servers, and a prefix for the names of this run.
 */
public final class Consoles {
    private static final int RECORDS = 10;
    private static final long FIRST_TIME = 1_600_000_000_000L;
    private static final List<String> OF_BROKERS = List.of("compression.type", "delete.topic.enable");
    private static final List<String> OF_TOPICS = List.of("cleanup.policy", "max.message.bytes", "min.insync.replicas");

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final Admin admin;
    private final Answers answers;
    private final TopicPartition first;
    private final ConfigResource topicResource;

    private Consoles(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        topic = prefix + "orders";
        group = prefix + "readers";
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", "console"));
        answers = new Answers(prefix);
        first = new TopicPartition(topic, 0);
        topicResource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    public static void main(String[] args) {
        Consoles consoles = new Consoles(args[0], args[1]);
        try {
            consoles.showCluster();
            consoles.showSecurity();
            consoles.fill();
            consoles.showTopic();
            consoles.showMessages();
            consoles.showGroups();
            consoles.editTopic();
        } finally {
            consoles.admin.close();
        }
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(30, SECONDS);
    }

    private int broker() throws Exception {
        return get(admin.describeCluster().nodes()).iterator().next().id();
    }

    private void showCluster() {
        answers.note("cluster", () -> {
            DescribeClusterResult asked =
                    admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            return Answers.object(
                    "brokers", get(asked.nodes()).size(),
                    "controller is one of them", get(asked.nodes()).contains(get(asked.controller())),
                    "id", get(asked.clusterId()).length(),
                    "operations", Answers.sorted(get(asked.authorizedOperations())));
        });
        answers.note("features", () -> get(admin.describeFeatures().featureMetadata())
                .finalizedFeatures()
                .containsKey("metadata.version"));
        answers.note("broker configuration", () -> {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker()));
            DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            Config config = get(admin.describeConfigs(Set.of(resource), all).all()).get(resource);
            return Answers.each(OF_BROKERS, name -> entry(config.get(name)));
        });
        answers.note("quorum", () -> {
            QuorumInfo quorum = get(admin.describeMetadataQuorum().quorumInfo());
            return Answers.object(
                    "voters", quorum.voters().size(),
                    "leader votes", quorum.voters().get(0).replicaId() == quorum.leaderId(),
                    "has records", quorum.highWatermark() > 0);
        });
        answers.note("reassignments", () -> get(admin.listPartitionReassignments().reassignments()).size());
    }

    private void showSecurity() {
        answers.note("rules", () -> get(admin.describeAcls(AclBindingFilter.ANY).values()));
        answers.note("quotas", () -> get(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).size());
        answers.note("users", () -> get(admin.describeUserScramCredentials().all()).size());
        answers.note("tokens", () -> get(admin.describeDelegationToken().delegationTokens()));
    }

    private void fill() {
        answers.note("create", () -> get(admin.createTopics(List.of(
                        new NewTopic(topic, 2, (short) 1).configs(Map.of("cleanup.policy", "compact,delete"))))
                .all()));
        answers.note("produce", () -> {
            Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "linger.ms", 1_000);
            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int i = 0; i < RECORDS; i++) {
                    byte[] value = ("value " + i).getBytes();
                    producer.send(new ProducerRecord<>(topic, 0, FIRST_TIME + i, ("key " + i).getBytes(), value));
                }
            }
            return RECORDS;
        });
    }

    private void showTopic() {
        answers.note("topics", () -> get(admin.listTopics().names()).contains(topic));
        answers.note("topic", () -> {
            DescribeTopicsOptions all = new DescribeTopicsOptions().includeAuthorizedOperations(true);
            TopicDescription described = get(admin.describeTopics(List.of(topic), all).allTopicNames()).get(topic);
            return Answers.object(
                    "internal", described.isInternal(),
                    "operations", Answers.sorted(described.authorizedOperations()),
                    "partitions", Answers.each(described.partitions(), each -> Answers.object(
                            "partition", each.partition(),
                            "leads", each.leader().equals(each.replicas().get(0)),
                            "in sync", each.isr().equals(each.replicas()))));
        });
        answers.note("no topic", () -> get(admin.describeTopics(List.of(topic + "-none")).allTopicNames()));
        answers.note("topic configuration", () -> {
            Config config = get(admin.describeConfigs(Set.of(topicResource)).all()).get(topicResource);
            return Answers.each(OF_TOPICS, name -> entry(config.get(name)));
        });
        answers.note("log directories", () -> {
            int broker = broker();
            Map<String, LogDirDescription> described =
                    get(admin.describeLogDirs(Set.of(broker)).allDescriptions()).get(broker);
            List<Object> told = new ArrayList<>();
            described.forEach((path, directory) -> told.add(Answers.object(
                    "error", directory.error() != null,
                    "volume", directory.totalBytes().orElse(0) >= directory.usableBytes().orElse(1),
                    "bytes", directory.replicaInfos().get(first).size(),
                    "lag", directory.replicaInfos().get(first).offsetLag(),
                    "future", directory.replicaInfos().get(first).isFuture())));
            return told;
        });
        answers.note("producers", () -> get(admin.describeProducers(List.of(first)).all())
                .get(first)
                .activeProducers()
                .size());
        answers.note("transactions", () -> get(admin.listTransactions().all()).stream()
                .filter(each -> each.transactionalId().startsWith(topic))
                .count());
    }

    private void showMessages() {
        answers.note("offsets", () -> {
            List<Object> told = new ArrayList<>();
            for (OffsetSpec spec : List.of(
                    OffsetSpec.earliest(),
                    OffsetSpec.latest(),
                    OffsetSpec.maxTimestamp(),
                    OffsetSpec.forTimestamp(FIRST_TIME + 4),
                    OffsetSpec.forTimestamp(FIRST_TIME + 1000))) {
                told.add(get(admin.listOffsets(Map.of(first, spec)).all()).get(first).offset());
            }
            return told;
        });
        answers.note("messages", () -> {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
                consumer.assign(List.of(first));
                long end = consumer.endOffsets(List.of(first)).get(first);
                consumer.seek(first, end - 3);
                List<Object> told = read(consumer, 3);
                consumer.seek(first, consumer.offsetsForTimes(Map.of(first, FIRST_TIME + 2)).get(first).offset());
                told.addAll(read(consumer, 1).subList(0, 1));
                return told;
            }
        });
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", bootstrap, "group.id", group, "enable.auto.commit", false);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<Object> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<Object> told = new ArrayList<>();
        for (int polls = 0; told.size() < count && polls < 100; polls++) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                told.add(record.offset() + " " + new String(record.key()) + " " + (record.timestamp() - FIRST_TIME));
            }
        }
        return told;
    }

    private void showGroups() {
        answers.note("commit", () -> {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
                consumer.commitSync(Map.of(first, new OffsetAndMetadata(4)));
            }
            return null;
        });
        answers.note("group", () -> get(admin.describeConsumerGroups(List.of(group)).all())
                .get(group)
                .members()
                .size());
        answers.note("committed", () -> get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                .get(first)
                .offset());
        answers.note("reset", () -> {
            get(admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(1))).all());
            return get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(first).offset();
        });
        answers.note("forget", () -> get(admin.deleteConsumerGroupOffsets(group, Set.of(first)).all()));
        answers.note("delete group", () -> get(admin.deleteConsumerGroups(List.of(group)).all()));
    }

    private void editTopic() {
        answers.note("alter", () -> {
            ConfigEntry wanted = new ConfigEntry("max.message.bytes", "2000");
            AlterConfigOp smaller = new AlterConfigOp(wanted, AlterConfigOp.OpType.SET);
            get(admin.incrementalAlterConfigs(Map.of(topicResource, Collections.singleton(smaller))).all());
            Config config = get(admin.describeConfigs(Set.of(topicResource)).all()).get(topicResource);
            return entry(config.get("max.message.bytes"));
        });
        answers.note("alter wrongly", () -> {
            AlterConfigOp wrong = new AlterConfigOp(new ConfigEntry("retention.ms", "long"), AlterConfigOp.OpType.SET);
            return get(admin.incrementalAlterConfigs(Map.of(topicResource, Collections.singleton(wrong))).all());
        });
        answers.note("more partitions", () -> {
            get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            return get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
        });
        answers.note("fewer partitions", () -> {
            return get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all());
        });
        answers.note("truncate", () -> get(admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(6))).all()));
        answers.note("begins", () -> get(admin.listOffsets(Map.of(first, OffsetSpec.earliest())).all())
                .get(first)
                .offset());
        answers.note("elect", () -> get(admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions())
                .get(first)
                .map(Answers::nameOf)
                .orElse("elected"));
        answers.note("reassign", () -> get(admin.alterPartitionReassignments(Map.of(first, Optional.empty()))
                .all()));
        answers.note("delete", () -> get(admin.deleteTopics(List.of(topic)).all()));
    }

    private static Object entry(ConfigEntry entry) {
        return Answers.object(
                "name", entry.name(),
                "value", entry.value(),
                "source", entry.source(),
                "read only", entry.isReadOnly(),
                "sensitive", entry.isSensitive(),
                "type", entry.type(),
                "synonyms",
                        Answers.each(entry.synonyms(), each -> each.name() + " " + each.value() + " " + each.source()),
                "documented", entry.documentation() != null);
    }
}
