package org.apache.kafka.common.test;

import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;

import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;

import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

/**
 * The Java objects of brokers and controllers that tests ask for what any client can learn: ports, topics, leaders and
 * offsets. They answer from minibroker. Any other method throws an error that begins with INSIDE-KAFKA.
 *
 * <p>Replies go by the names of methods, and nested objects by their return types, since both outlive releases better
 * than the names of Kafka's classes.
 */
public final class BrokerViews {
    private BrokerViews() { }

    interface Reply {
        Object to(InvocationOnMock call) throws Throwable;
    }

    /** An object whose methods reply as listed, by name. */
    static <T> T view(Class<T> type, Map<String, Reply> replies) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call -> {
            String name = call.getMethod().getName();
            Reply reply = replies.get(name);
            if (reply != null) {
                return reply.to(call);
            }
            switch (name) {
                case "toString": return type.getSimpleName() + " of minibroker";
                case "hashCode": return System.identityHashCode(call.getMock());
                case "equals": return call.getMock() == call.getArgument(0);
                default: throw new UnsupportedOperationException("INSIDE-KAFKA: the test asks for " + call.getMethod());
            }
        }));
    }

    private static Reply value(Object value) {
        return call -> value;
    }

    private static Reply nested(Map<String, Reply> replies) {
        return call -> view(call.getMethod().getReturnType(), replies);
    }

    /** Wrap a value into the Option or Optional that the method returns. */
    private static Object option(InvocationOnMock call, Object value) {
        return call.getMethod().getReturnType() == Optional.class ? Optional.ofNullable(value) : scala.Option.apply(value);
    }

    private static Object optionalView(InvocationOnMock call, boolean isThere, Map<String, Reply> replies) {
        return option(call, isThere ? view(elementType(call), replies) : null);
    }

    /** Return the class of what the Option or Optional holds that the method returns. */
    private static Class<?> elementType(InvocationOnMock call) {
        Type type = ((ParameterizedType) call.getMethod().getGenericReturnType()).getActualTypeArguments()[0];
        return (Class<?>) (type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type);
    }

    private static Object sequence(InvocationOnMock call, List<?> values) {
        return call.getMethod().getReturnType() == List.class ? values : scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq();
    }

    private static TopicPartition partition(InvocationOnMock call) {
        Object first = call.getArgument(0);
        return first instanceof TopicPartition ? (TopicPartition) first : new TopicPartition((String) first, call.getArgument(1));
    }

    /** Return a partition as RemoteBrokers describes it, or null. */
    private static JsonNode look(RemoteBrokers brokers, TopicPartition partition) {
        return brokers.partitions(partition.topic()).get(partition.partition());
    }

    /**
     * @param brokers the running brokers, or null before they start
     * @param start called before this broker starts
     */
    public static BrokerServer broker(int id, KafkaConfig config, String clusterId, Supplier<RemoteBrokers> brokers, Runnable start) {
        AtomicBoolean isDown = new AtomicBoolean(true);
        Metrics metrics = new Metrics();
        Map<String, Reply> logs = new HashMap<>();
        logs.put("getLog", call -> {
            TopicPartition partition = partition(call);
            return optionalView(call, look(brokers.get(), partition) != null, log(config, brokers, partition));
        });
        logs.put("getLog$default$2", value(false));
        logs.put("liveLogDirs", call -> sequence(call, List.of()));
        logs.put("cleaner", nested(Map.of("awaitCleaned", call -> {
            brokers.get().compact(partition(call).topic());
            return true;
        })));
        Map<String, Reply> replicas = new HashMap<>();
        replicas.put("logManager", nested(logs));
        replicas.put("localLog", logs.get("getLog"));
        replicas.put("onlinePartition", call -> {
            TopicPartition partition = partition(call);
            return optionalView(call, !isDown.get() && look(brokers.get(), partition) != null, replica(id, config, brokers, partition));
        });
        Map<String, Reply> replies = new HashMap<>();
        replies.put("config", value(config));
        replies.put("clusterId", value(clusterId));
        replies.put("metrics", value(metrics));
        replies.put("brokerState", call -> isDown.get() ? BrokerState.NOT_RUNNING : BrokerState.RUNNING);
        replies.put("isShutdown", call -> isDown.get());
        replies.put("startup", call -> {
            start.run();
            brokers.get().start(id);
            isDown.set(false);
            return null;
        });
        replies.put("shutdown", call -> {
            isDown.set(true);
            if (brokers.get() != null) {
                brokers.get().stop(id);
            }
            return null;
        });
        replies.put("awaitShutdown", value(null));
        replies.put("lifecycleManager", nested(Map.of("initialUnfenceFuture", value(CompletableFuture.completedFuture(null)))));
        replies.put("boundPort", call -> brokers.get() == null ? -1 : brokers.get().port(id, ((ListenerName) call.getArgument(0)).value()));
        replies.put("socketServer", nested(Map.of("boundPort", replies.get("boundPort"), "config", value(config))));
        replies.put("metadataCache", nested(metadata(brokers)));
        replies.put("replicaManager", nested(replicas));
        replies.put("logManager", nested(logs));
        replies.put("authorizer", authorizer(config, brokers));
        replies.put("authorizerPlugin", authorizer(config, brokers));
        replies.put("dataPlaneRequestProcessor", nested(Map.of("brokerId", value(id), "clusterId", value(clusterId), "isConsumerGroupProtocolEnabled", value(true), "metadataCache", replies.get("metadataCache"),
            "quotas", quotas(brokers), "authorizer", authorizer(config, brokers), "authorizerPlugin", authorizer(config, brokers))));
        replies.put("quotaManagers", quotas(brokers));
        replies.put("groupCoordinator", nested(Map.of("groupMetadataTopicConfigs", value(compacted()))));
        replies.put("transactionCoordinator", nested(Map.of("transactionStateTopicConfigs", value(compacted()))));
        replies.put("shareCoordinator", call -> call.getMethod().getReturnType() == scala.Option.class
            ? optionalView(call, true, Map.of("shareGroupStateTopicConfigs", value(compacted())))
            : view(call.getMethod().getReturnType(), Map.of("shareGroupStateTopicConfigs", value(compacted()))));
        replies.put("sharedServer", nested(Map.of("loader", nested(Map.of("lastAppliedOffset", value(Long.MAX_VALUE))))));
        return view(BrokerServer.class, replies);
    }

    private static Properties compacted() {
        Properties properties = new Properties();
        properties.put("cleanup.policy", "compact");
        return properties;
    }

    /** The authorizer, alone or in a Plugin. */
    private static Reply authorizer(KafkaConfig config, Supplier<RemoteBrokers> brokers) {
        Map<String, Reply> replies = new HashMap<>();
        replies.put("acls", call -> matching(brokers.get().acls(), call.getArgument(0)));
        replies.put("createAcls", call -> {
            List<AclBinding> acls = call.getArgument(1);
            brokers.get().changeAcls(true, acls);
            return acls.stream().map(acl -> CompletableFuture.completedFuture(AclCreateResult.SUCCESS)).toList();
        });
        replies.put("deleteAcls", call -> {
            List<AclBindingFilter> filters = call.getArgument(1);
            List<CompletableFuture<AclDeleteResult>> results = new ArrayList<>();
            for (AclBindingFilter filter : filters) {
                List<AclBinding> acls = matching(brokers.get().acls(), filter);
                brokers.get().changeAcls(false, acls);
                results.add(CompletableFuture.completedFuture(new AclDeleteResult(acls.stream().map(AclDeleteResult.AclBindingDeleteResult::new).toList())));
            }
            return results;
        });
        Authorizer authorizer = view(Authorizer.class, replies);
        return call -> {
            if (config.originals().getOrDefault("authorizer.class.name", "").toString().isEmpty()) {
                return scala.Option.empty();
            }
            return elementType(call) == Authorizer.class ? scala.Option.apply(authorizer) : optionalView(call, true, Map.of("get", value(authorizer)));
        };
    }

    private static List<AclBinding> matching(List<AclBinding> acls, AclBindingFilter filter) {
        return acls.stream().filter(filter::matches).toList();
    }

    private static Reply quotas(Supplier<RemoteBrokers> brokers) {
        Map<String, Reply> replies = new HashMap<>();
        Map.of("produce", "producer_byte_rate", "fetch", "consumer_byte_rate", "request", "request_percentage",
            "controllerMutation", "controller_mutation_rate").forEach((name, key) -> replies.put(name, nested(Map.of("quota", call -> {
                Object user = call.getArgument(0);
                String userName = user instanceof KafkaPrincipal ? ((KafkaPrincipal) user).getName() : (String) user;
                return Quota.upperBound(brokers.get().quota(key, userName, call.getArgument(1)));
            }))));
        return nested(replies);
    }

    private static Map<String, Reply> metadata(Supplier<RemoteBrokers> brokers) {
        Map<String, Reply> replies = new HashMap<>();
        replies.put("numPartitions", call -> {
            int count = brokers.get().partitions(call.getArgument(0)).size();
            return option(call, count == 0 ? null : count);
        });
        replies.put("contains", call -> call.getArgument(0) instanceof TopicPartition
            ? look(brokers.get(), partition(call)) != null : brokers.get().partitions(call.getArgument(0)).size() > 0);
        replies.put("getAliveBrokerNodes", call -> sequence(call, brokers.get().nodes()));
        replies.put("getBrokerNodes", replies.get("getAliveBrokerNodes"));
        replies.put("getAliveBrokerNode", call -> option(call, brokers.get().nodes().stream().filter(node -> node.id() == (int) call.getArgument(0)).findFirst().orElse(null)));
        replies.put("topicConfig", call -> brokers.get().topicConfig(call.getArgument(0)));
        replies.put("hasAliveBroker", call -> brokers.get().isUp(call.getArgument(0)));
        replies.put("getTopicId", call -> brokers.get().topicIds().getOrDefault(call.getArgument(0), Uuid.ZERO_UUID));
        replies.put("getPartitionLeaderEndpoint", call -> {
            JsonNode found = look(brokers.get(), partition(call));
            int leader = found == null ? -1 : found.get("leader").asInt();
            return option(call, brokers.get().nodes().stream().filter(node -> node.id() == leader).findFirst().orElse(null));
        });
        replies.put("getLeaderAndIsr", call -> {
            JsonNode found = look(brokers.get(), partition(call));
            if (found == null) {
                return option(call, null);
            }
            List<Integer> isr = new ArrayList<>();
            found.get("isr").forEach(id -> isr.add(id.asInt()));
            return option(call, new LeaderAndIsr(found.get("leader").asInt(), found.get("epoch").asInt(), isr, LeaderRecoveryState.RECOVERED, 0));
        });
        return replies;
    }

    private static Map<String, Reply> replica(int id, KafkaConfig config, Supplier<RemoteBrokers> brokers, TopicPartition partition) {
        Supplier<Integer> leader = () -> look(brokers.get(), partition).get("leader").asInt();
        Map<String, Reply> replies = new HashMap<>();
        replies.put("isLeader", call -> leader.get() == id);
        replies.put("leaderLogIfLocal", call -> optionalView(call, leader.get() == id, log(config, brokers, partition)));
        replies.put("leaderIdIfLocal", call -> option(call, leader.get() == id ? id : null));
        replies.put("leaderReplicaIdOpt", call -> option(call, leader.get() < 0 ? null : leader.get()));
        replies.put("getLeaderEpoch", call -> look(brokers.get(), partition).get("epoch").asInt());
        return replies;
    }

    private static Map<String, Reply> log(KafkaConfig config, Supplier<RemoteBrokers> brokers, TopicPartition partition) {
        Supplier<JsonNode> log = () -> brokers.get().log(partition.topic(), partition.partition());
        Map<String, Reply> replies = new HashMap<>();
        replies.put("logStartOffset", call -> log.get().get("start").asLong());
        replies.put("logEndOffset", call -> log.get().get("end").asLong());
        replies.put("highWatermark", replies.get("logEndOffset"));
        replies.put("lastStableOffset", call -> log.get().get("stable").asLong());
        replies.put("config", call -> LogConfig.fromProps(config.extractLogConfigMap(), brokers.get().topicConfig(partition.topic())));
        replies.put("dir", call -> new java.io.File(log.get().get("directory").asText()));
        replies.put("parentDir", call -> new java.io.File(log.get().get("directory").asText()).getParent());
        replies.put("roll", call -> {
            brokers.get().roll(partition.topic(), partition.partition());
            return null;
        });
        replies.put("producerStateManager", nested(Map.of("activeProducers", call -> {
            Map<Long, ProducerStateEntry> producers = new HashMap<>();
            for (JsonNode producer : log.get().get("producers")) {
                producers.put(producer.get("id").asLong(), producer(producer));
            }
            return call.getMethod().getReturnType() == Map.class ? producers : scala.jdk.javaapi.CollectionConverters.asScala(producers);
        })));
        return replies;
    }

    private static ProducerStateEntry producer(JsonNode producer) throws ReflectiveOperationException {
        long begin = producer.get("transaction_start").asLong();
        List<Object> arguments = new ArrayList<>(List.of(producer.get("id").asLong(), (short) producer.get("epoch").asInt(),
            producer.get("coordinator_epoch").asInt(), producer.get("timestamp").asLong(), begin < 0 ? OptionalLong.empty() : OptionalLong.of(begin)));
        for (var constructor : ProducerStateEntry.class.getConstructors()) {
            if (constructor.getParameterCount() >= 5) {
                if (constructor.getParameterCount() == 6) { // up to Kafka 4.2: the newest batch
                    arguments.add(Optional.empty());
                }
                return (ProducerStateEntry) constructor.newInstance(arguments.toArray());
            }
        }
        throw new NoSuchMethodException("ProducerStateEntry");
    }

    /** The Raft manager of a quorum that has agreed on everything, and whose leader is this controller. */
    @SuppressWarnings("rawtypes")
    static kafka.raft.KafkaRaftManager raftManager(int leader) {
        Reply log = nested(Map.of("endOffset", value(new LogOffsetMetadata(0))));
        return view(kafka.raft.KafkaRaftManager.class, Map.of("raftLog", log, "replicatedLog", log,
            "client", nested(Map.of("leaderAndEpoch", value(new LeaderAndEpoch(OptionalInt.of(leader), 1))))));
    }

    /** @param id the node id of the controller; minibroker has none, so tests get the port of its first broker */
    public static ControllerServer controller(int id, KafkaConfig config, String clusterId, Supplier<RemoteBrokers> brokers) {
        Map<String, Reply> replies = new HashMap<>();
        replies.put("config", value(config));
        replies.put("clusterId", value(clusterId));
        replies.put("startup", value(null));
        replies.put("shutdown", value(null));
        replies.put("awaitShutdown", value(null));
        replies.put("authorizer", authorizer(config, brokers));
        replies.put("authorizerPlugin", authorizer(config, brokers));
        replies.put("quotaManagers", quotas(brokers));
        replies.put("socketServer", nested(Map.of("boundPort", call -> brokers.get().nodes().get(0).port())));
        replies.put("raftManager", call -> raftManager(id));
        replies.put("controller", nested(Map.of(
            "isActive", value(true),
            "waitForReadyBrokers", value(CompletableFuture.completedFuture(null)),
            "findAllTopicIds", call -> CompletableFuture.completedFuture(brokers.get().topicIds()),
            "findTopicIds", call -> {
                Map<String, Uuid> ids = brokers.get().topicIds();
                Map<String, ResultOrError<Uuid>> results = new HashMap<>();
                for (Object name : (Collection<?>) call.getArgument(1)) {
                    results.put((String) name, ids.containsKey(name) ? new ResultOrError<>(ids.get(name))
                        : new ResultOrError<>(Errors.UNKNOWN_TOPIC_OR_PARTITION, null));
                }
                return CompletableFuture.completedFuture(results);
            })));
        return view(ControllerServer.class, replies);
    }
}
