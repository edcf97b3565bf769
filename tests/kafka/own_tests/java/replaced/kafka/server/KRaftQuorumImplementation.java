package kafka.server;

import org.apache.kafka.common.test.BrokerViews;
import org.apache.kafka.common.test.RemoteBrokers;
import org.apache.kafka.common.test.RemoteFeatures;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.fault.FaultHandler;

import java.io.File;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;

/** Takes the place of the class with which QuorumTestHarness makes brokers: they are those of a minibroker. */
public class KRaftQuorumImplementation implements QuorumImplementation {
    private final ControllerServer controller;
    private final FaultHandlerFactory faultHandlerFactory;
    private final File metadataDir;
    private final CompletableFuture<Map<Integer, InetSocketAddress>> voters;
    private final String clusterId;
    private final kafka.utils.Logging harness;
    private final FaultHandler faultHandler;
    private final Map<String, Short> features = new TreeMap<>();
    private RemoteBrokers remote;

    public KRaftQuorumImplementation(ControllerServer started, FaultHandlerFactory faultHandlerFactory, File metadataDir,
                                     CompletableFuture<Map<Integer, InetSocketAddress>> voters, String clusterId,
                                     kafka.utils.Logging harness, FaultHandler faultHandler) {
        for (String feature : RemoteFeatures.NAMES) {
            features.put(feature, started.bootstrapMetadata().featureLevel(feature));
        }
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
        List<KafkaConfig> configs = harness instanceof kafka.integration.KafkaServerTestHarness
            ? scala.jdk.javaapi.CollectionConverters.asJava(((kafka.integration.KafkaServerTestHarness) harness).configs()) : List.of(config);
        Map<Integer, Map<String, String>> given = new TreeMap<>();
        for (KafkaConfig one : configs) {
            Map<String, String> values = new TreeMap<>();
            one.originals().forEach((key, value) -> {
                if (value != null) {
                    values.put(key, RemoteBrokers.text(value));
                }
            });
            given.put(one.brokerId(), values);
        }
        Object directories = config.originals().getOrDefault("log.dirs", config.originals().get("log.dir"));
        String data = String.valueOf(directories).split(",")[0];
        remote = new RemoteBrokers(given, config.interBrokerListenerName().value(), data, clusterId, features);
    }

    @Override
    public void shutdown() {
        if (remote != null) {
            remote.close();
            remote = null;
        }
    }
}
