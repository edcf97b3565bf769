package kafka.server;

import org.apache.kafka.common.test.BrokerViews;
import org.apache.kafka.common.test.RemoteBrokers;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.fault.FaultHandler;

import java.io.File;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;

/** Takes the place of the class with which QuorumTestHarness makes brokers: they are those of a minibroker. */
public class KRaftQuorumImplementation implements QuorumImplementation {
    /** A test that makes its brokers one by one may make so many: all but the first are stopped until then. */
    private static final int MOST_BROKERS = 8;

    private final ControllerServer controller;
    private final FaultHandlerFactory faultHandlerFactory;
    private final File metadataDir;
    private final CompletableFuture<Map<Integer, InetSocketAddress>> voters;
    private final String clusterId;
    private final kafka.utils.Logging harness;
    private final FaultHandler faultHandler;
    private final BootstrapMetadata bootstrap;
    private RemoteBrokers remote;

    public KRaftQuorumImplementation(ControllerServer started, FaultHandlerFactory faultHandlerFactory, File metadataDir,
                                     CompletableFuture<Map<Integer, InetSocketAddress>> voters, String clusterId,
                                     kafka.utils.Logging harness, FaultHandler faultHandler) {
        this.bootstrap = started.bootstrapMetadata();
        this.controller = BrokerViews.controller(1000, started.config(), clusterId, () -> remote);
        this.faultHandlerFactory = faultHandlerFactory;
        this.metadataDir = metadataDir;
        this.voters = voters;
        this.clusterId = clusterId;
        this.harness = harness;
        this.faultHandler = faultHandler;
        started.shutdown();
    }

    public ControllerServer controllerServer() {
        return controller;
    }

    public FaultHandlerFactory faultHandlerFactory() {
        return faultHandlerFactory;
    }

    public File metadataDir() {
        return metadataDir;
    }

    public CompletableFuture<Map<Integer, InetSocketAddress>> controllerQuorumVotersFuture() {
        return voters;
    }

    public String clusterId() {
        return clusterId;
    }

    public kafka.utils.Logging log() {
        return harness;
    }

    public FaultHandler faultHandler() {
        return faultHandler;
    }

    @Override
    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, scala.Option<String> threadNamePrefix) {
        BrokerServer broker = BrokerViews.broker(config.brokerId(), config, clusterId, () -> remote, () -> begin(config));
        if (startup) {
            broker.startup();
        }
        return broker;
    }

    private synchronized void begin(KafkaConfig config) {
        if (remote != null) {
            return;
        }
        Map<Integer, Map<String, String>> given = new TreeMap<>();
        if (harness instanceof kafka.integration.KafkaServerTestHarness) {
            scala.jdk.javaapi.CollectionConverters.asJava(((kafka.integration.KafkaServerTestHarness) harness).configs())
                .forEach(one -> given.put(one.brokerId(), values(one)));
        } else {
            for (int i = 0; i < MOST_BROKERS; i++) {
                given.put(config.brokerId() + i, values(config));
            }
        }
        Object directories = config.originals().getOrDefault("log.dirs", config.originals().get("log.dir"));
        String data = String.valueOf(directories).split(",")[0];
        remote = new RemoteBrokers(given, config.interBrokerListenerName().value(), data, clusterId, bootstrap);
        if (!(harness instanceof kafka.integration.KafkaServerTestHarness)) {
            given.keySet().stream().filter(id -> id != config.brokerId()).forEach(remote::stop);
        }
    }

    private static Map<String, String> values(KafkaConfig config) {
        Map<String, String> values = new TreeMap<>();
        config.originals().forEach((key, value) -> {
            if (value != null) {
                values.put(key, RemoteBrokers.text(value));
            }
        });
        return values;
    }

    @Override
    public void shutdown() {
        if (remote != null) {
            remote.close();
            remote = null;
        }
    }
}
