package org.apache.kafka.common.test;

import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.Controller;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** Takes the place of the class behind @ClusterTest: its brokers are those of a minibroker. */
public class KafkaClusterTestKit implements AutoCloseable {
    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> properties = new HashMap<>();
        private boolean deleteOnClose = true;

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            properties.put(key, value);
            return this;
        }

        public Builder setStandalone(boolean standalone) {
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> voters) {
            return this;
        }

        public Builder setDeleteOnClose(boolean deleteOnClose) {
            this.deleteOnClose = deleteOnClose;
            return this;
        }

        public KafkaClusterTestKit build() throws Exception {
            return new KafkaClusterTestKit(this);
        }
    }

    /** Client properties, as tests up to Kafka 4.2 ask for them. */
    public class ClientPropertiesBuilder {
        private final Properties properties;

        public ClientPropertiesBuilder() {
            this(new Properties());
        }

        public ClientPropertiesBuilder(Properties properties) {
            this.properties = properties;
        }

        public ClientPropertiesBuilder setUsingBootstrapControllers(boolean isWanted) {
            if (isWanted) {
                properties.put("bootstrap.controllers", bootstrapControllers());
            }
            return this;
        }

        public Properties build() {
            if (!properties.containsKey("bootstrap.controllers")) {
                properties.putIfAbsent("bootstrap.servers", bootstrapServers());
            }
            login().forEach(properties::putIfAbsent);
            return properties;
        }
    }

    private static final String LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%1$s\" password=\"%2$s\"";

    private final TestKitNodes nodes;
    private final Map<String, Object> properties;
    private final boolean deleteOnClose;
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private final Map<Integer, ControllerServer> controllers = new TreeMap<>();
    private final MockFaultHandler fatal = new MockFaultHandler("fatal");
    private final MockFaultHandler nonFatal = new MockFaultHandler("non-fatal");
    private RemoteBrokers remote;
    private Path jaas;

    private KafkaClusterTestKit(Builder builder) throws Exception {
        nodes = builder.nodes;
        properties = builder.properties;
        deleteOnClose = builder.deleteOnClose;
        if (isSasl()) {
            // Clients of these tests take the login module from this file unless they have another one.
            jaas = Files.createTempFile("jaas", ".conf");
            JaasUtils.refreshJavaLoginConfigParam(jaas.toFile());
        }
        for (TestKitNode node : nodes.brokerNodes().values()) {
            node.logDataDirectories().forEach(directory -> new File(directory).mkdirs());
            brokers.put(node.id(), BrokerViews.broker(node.id(), new KafkaConfig(properties(node, "broker"), false), nodes.clusterId(), () -> remote, this::begin));
        }
        for (TestKitNode node : nodes.controllerNodes().values()) {
            controllers.put(node.id(), BrokerViews.controller(node.id(), new KafkaConfig(properties(node, "controller"), false), nodes.clusterId(), () -> remote));
        }
    }

    private boolean isSasl() {
        return nodes.brokerListenerProtocol() == SecurityProtocol.SASL_PLAINTEXT;
    }

    private Map<String, Object> properties(TestKitNode node, String role) {
        boolean isBroker = role.equals("broker");
        String broker = nodes.brokerListenerName().value();
        String controller = nodes.controllerListenerName().value();
        Map<String, Object> result = new HashMap<>();
        result.put("listener.security.protocol.map", broker + ":" + nodes.brokerListenerProtocol().name + "," + controller + ":" + nodes.controllerListenerProtocol().name);
        result.put("listeners", (isBroker ? broker : controller) + "://localhost:0");
        result.put("inter.broker.listener.name", broker);
        result.put("controller.listener.names", controller);
        result.put("unstable.api.versions.enable", "true");
        result.put("unstable.feature.versions.enable", "true");
        if (isSasl()) {
            result.put("sasl.enabled.mechanisms", "PLAIN");
            result.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
            result.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            result.put("allow.everyone.if.no.acl.found", "false");
            result.put("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        }
        result.putAll(properties);
        result.put("log.dirs", String.join(",", isBroker ? node.logDataDirectories() : java.util.Set.of(node.metadataDirectory())));
        result.putAll(node.propertyOverrides());
        result.put("process.roles", role);
        result.put("node.id", Integer.toString(node.id()));
        result.put("controller.quorum.voters", (isBroker ? 3000 : node.id()) + "@localhost:1");
        return result;
    }

    public void format() { }

    public void startup() {
        brokers.values().forEach(BrokerServer::startup);
    }

    private synchronized void begin() {
        if (remote != null) {
            return;
        }
        String listener = nodes.brokerListenerName().value();
        Map<Integer, Map<String, String>> configs = new TreeMap<>();
        nodes.brokerNodes().forEach((id, node) -> {
            Map<String, String> config = properties(node, "broker").entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, entry -> RemoteBrokers.text(entry.getValue())));
            if (isSasl()) {
                config.putIfAbsent("listener.name." + listener.toLowerCase(java.util.Locale.ROOT) + ".plain.sasl.jaas.config",
                    String.format(LOGIN + " user_%1$s=\"%2$s\" user_%3$s=\"%4$s\";", JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
                        JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD));
            }
            configs.put(id, config);
        });
        TestKitNode first = nodes.brokerNodes().get(nodes.brokerNodes().firstKey());
        remote = new RemoteBrokers(configs, listener, first.logDataDirectories().iterator().next(), nodes.clusterId(), nodes.bootstrapMetadata());
    }

    public void waitForReadyBrokers() { }

    private Map<String, Object> login() {
        Map<String, Object> login = new LinkedHashMap<>();
        login.put("security.protocol", nodes.brokerListenerProtocol().name);
        if (isSasl()) {
            login.put("sasl.mechanism", "PLAIN");
            login.put("sasl.jaas.config", String.format(LOGIN + ";", JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
        }
        return login;
    }

    public Admin admin() {
        return admin(Map.of(), false);
    }

    public Admin admin(Map<String, Object> configs) {
        return admin(configs, false);
    }

    public Admin admin(Map<String, Object> configs, boolean usingBootstrapControllers) {
        Properties given = new Properties();
        given.putAll(configs);
        return Admin.create(newClientPropertiesBuilder(given).setUsingBootstrapControllers(usingBootstrapControllers).build());
    }

    public ClientPropertiesBuilder newClientPropertiesBuilder() {
        return new ClientPropertiesBuilder();
    }

    public ClientPropertiesBuilder newClientPropertiesBuilder(Properties properties) {
        return new ClientPropertiesBuilder(properties);
    }

    public Properties clientProperties() {
        return newClientPropertiesBuilder().build();
    }

    public String bootstrapServers() {
        return brokers.keySet().stream().map(id -> "localhost:" + remote.port(id)).collect(Collectors.joining(","));
    }

    public String bootstrapControllers() {
        return "localhost:" + remote.port(nodes.brokerNodes().firstKey());
    }

    public Map<Integer, ControllerServer> controllers() {
        return controllers;
    }

    public Controller waitForActiveController() {
        return controllers.values().iterator().next().controller();
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    @SuppressWarnings("unchecked")
    public Map<Integer, kafka.raft.KafkaRaftManager<org.apache.kafka.server.common.ApiMessageAndVersion>> raftManagers() {
        Map<Integer, kafka.raft.KafkaRaftManager<org.apache.kafka.server.common.ApiMessageAndVersion>> managers = new TreeMap<>();
        controllers.keySet().forEach(id -> managers.put(id, BrokerViews.raftManager(id)));
        brokers.keySet().forEach(id -> managers.put(id, BrokerViews.raftManager(controllers.keySet().iterator().next())));
        return managers;
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return fatal;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return nonFatal;
    }

    @Override
    public synchronized void close() throws Exception {
        if (remote != null) {
            remote.close();
            remote = null;
        }
        if (deleteOnClose) {
            Utils.delete(new File(nodes.baseDirectory()));
        }
        if (jaas != null) {
            Files.deleteIfExists(jaas);
        }
    }
}
