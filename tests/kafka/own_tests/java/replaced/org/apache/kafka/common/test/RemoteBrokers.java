package org.apache.kafka.common.test;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The brokers of one test. They run in a process that the fork server (brokers.py) makes for this connection, and that
 * ends with it. A request is one line of JSON, and so is its answer.
 */
public final class RemoteBrokers implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** The features whose levels a test may choose, and that change what clients see. */
    private static final List<String> FEATURES = List.of("group.version", "transaction.version", "share.version", "streams.version",
        "eligible.leader.replicas.version", "metadata.version");
    private final Socket socket;
    private final BufferedReader answers;
    private final Map<String, Map<Integer, Integer>> ports = new LinkedHashMap<>();
    private final String interBrokerListener;
    private final Set<Integer> up = ConcurrentHashMap.newKeySet();

    /**
     * @param configs the configuration of each broker, by node id; the ids are consecutive
     * @param bootstrap has the finalized levels and the SCRAM credentials that the cluster begins with
     */
    public RemoteBrokers(Map<Integer, Map<String, String>> configs, String interBrokerListener, String dataDirectory,
                         String clusterId, BootstrapMetadata bootstrap) {
        this.interBrokerListener = interBrokerListener;
        Map<String, Object> request = new HashMap<>();
        request.put("configs", configs);
        request.put("data_dir", new File(dataDirectory).getAbsolutePath());
        request.put("cluster_id", clusterId);
        Map<String, Short> levels = new HashMap<>();
        FEATURES.forEach(feature -> levels.put(feature, bootstrap.featureLevel(feature)));
        request.put("features", levels);
        request.put("scram", bootstrap.records().stream().filter(record -> record.message() instanceof UserScramCredentialRecord)
            .map(record -> credential((UserScramCredentialRecord) record.message())).toList());
        request.put("emulate", System.getProperty("minibroker.emulate"));
        try {
            // Brokers of Kafka take their logins from the JAAS file of the JVM.
            Path jaas = Path.of(System.getProperty("java.security.auth.login.config", ""));
            request.put("jaas", Files.isRegularFile(jaas) ? Files.readString(jaas) : "");
            socket = new Socket("127.0.0.1", Integer.getInteger("minibroker.brokers"));
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        ask(request).get("ports").fields().forEachRemaining(listener -> listener.getValue().fields().forEachRemaining(port ->
            ports.computeIfAbsent(listener.getKey(), name -> new TreeMap<>()).put(Integer.valueOf(port.getKey()), port.getValue().asInt())));
        up.addAll(configs.keySet());
    }

    private static Map<String, Object> credential(UserScramCredentialRecord record) {
        return Map.of("user", record.name(), "mechanism", record.mechanism(), "salt", record.salt(),
            "stored_key", record.storedKey(), "server_key", record.serverKey(), "iterations", record.iterations());
    }

    /** Write a value of a configuration as a properties file has it. */
    public static String text(Object value) {
        if (value instanceof Collection<?> values) {
            return String.join(",", values.stream().map(String::valueOf).toList());
        }
        return value instanceof Password ? ((Password) value).value() : String.valueOf(value);
    }

    private synchronized JsonNode ask(Map<String, ?> request) {
        try {
            socket.getOutputStream().write((JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.UTF_8));
            String line = answers.readLine();
            if (line == null) {
                throw new IllegalStateException("the process of the brokers has ended");
            }
            JsonNode answer = JSON.readTree(line);
            if (answer.hasNonNull("error")) {
                throw new IllegalStateException("minibroker: " + answer.get("error").asText());
            }
            return answer;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Return the port of a broker for other brokers and for tests that name no listener. */
    public int port(int id) {
        return port(id, interBrokerListener);
    }

    public int port(int id, String listener) {
        for (Map.Entry<String, Map<Integer, Integer>> entry : ports.entrySet()) {
            if (entry.getKey().equalsIgnoreCase(listener)) {
                return entry.getValue().getOrDefault(id, -1);
            }
        }
        throw new IllegalArgumentException("no listener " + listener + " among " + ports.keySet());
    }

    public boolean isUp(int id) {
        return up.contains(id);
    }

    public List<Node> nodes() {
        List<Node> nodes = new ArrayList<>();
        up.stream().sorted().forEach(id -> nodes.add(new Node(id, "localhost", port(id))));
        return nodes;
    }

    public void start(int id) {
        if (up.add(id)) {
            ask(Map.of("do", "start", "node", id));
        }
    }

    public void stop(int id) {
        if (up.remove(id)) {
            ask(Map.of("do", "stop", "node", id));
        }
    }

    /** Return the names and ids of all topics. */
    public Map<String, org.apache.kafka.common.Uuid> topicIds() {
        Map<String, org.apache.kafka.common.Uuid> ids = new HashMap<>();
        ask(Map.of("do", "topics")).get("topics").fields().forEachRemaining(
            topic -> ids.put(topic.getKey(), org.apache.kafka.common.Uuid.fromString(topic.getValue().asText())));
        return ids;
    }

    /** Return the configuration of a topic, without the broker's defaults. */
    public Properties topicConfig(String topic) {
        Properties config = new Properties();
        ask(Map.of("do", "topic_config", "topic", topic)).get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    /** Return the partitions of a topic, none if it does not exist. */
    public JsonNode partitions(String topic) {
        return ask(Map.of("do", "partitions", "topic", topic)).get("partitions");
    }

    /** Return the offsets and the producers of a partition's log. */
    public JsonNode log(String topic, int partition) {
        return ask(Map.of("do", "log", "topic", topic, "partition", partition));
    }

    /** Begin a new segment of a partition's log. */
    public void roll(String topic, int partition) {
        ask(Map.of("do", "roll", "topic", topic, "partition", partition));
    }

    /** Clean the logs of a compacted topic, and wait until that is done. */
    public void compact(String topic) {
        ask(Map.of("do", "compact", "topic", topic));
    }

    /** Return the quota of a client, or the largest number if it has none. */
    public double quota(String key, String user, String clientId) {
        return ask(Map.of("do", "quota", "key", key, "user", user, "client_id", clientId)).get("limit").asDouble();
    }

    /** Return all ACLs. */
    public List<AclBinding> acls() {
        List<AclBinding> acls = new ArrayList<>();
        for (JsonNode acl : ask(Map.of("do", "acls")).get("acls")) {
            acls.add(new AclBinding(
                new ResourcePattern(ResourceType.fromCode((byte) acl.get(0).asInt()), acl.get(1).asText(), PatternType.fromCode((byte) acl.get(2).asInt())),
                new AccessControlEntry(acl.get(3).asText(), acl.get(4).asText(), AclOperation.fromCode((byte) acl.get(5).asInt()),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt()))));
        }
        return acls;
    }

    /** Add ACLs, or remove them. */
    public void changeAcls(boolean isAddition, Collection<AclBinding> acls) {
        List<List<Object>> fields = new ArrayList<>();
        for (AclBinding acl : acls) {
            fields.add(List.of(acl.pattern().resourceType().code(), acl.pattern().name(), acl.pattern().patternType().code(),
                acl.entry().principal(), acl.entry().host(), acl.entry().operation().code(), acl.entry().permissionType().code()));
        }
        ask(Map.of("do", isAddition ? "add_acls" : "remove_acls", "acls", fields));
    }

    /** End the process of the brokers, and wait until it has ended. */
    @Override
    public synchronized void close() {
        try (socket) {
            socket.shutdownOutput();
            while (answers.readLine() != null) { }
        } catch (IOException e) {
            // It has ended already.
        }
    }
}
