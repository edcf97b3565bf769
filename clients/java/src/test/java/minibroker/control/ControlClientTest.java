package minibroker.control;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class ControlClientTest {
    private static final String AUTHORIZER =
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    private static final Duration LONG = Duration.ofSeconds(20);

    private static final Minibroker BROKER = Minibroker.options().topic("given:2").brokers(2).registry().token("secret")
        .arguments("--journal", "--set", AUTHORIZER).start();

    private final ControlClient control = BROKER.control();

    @Test
    void theProgramOfTheReadme() {
        try (Minibroker broker = Minibroker.options().topic("orders:3").start()) {
            broker.control().produce("orders", NewRecord.of("1", Map.of("id", 1)));
            Answers.ConsumedRecord record = broker.control().expect("orders", Expected.ofValue(Map.of("id", 1)), Format.JSON);
            assertEquals(Map.of("id", 1L), record.value());
        }
    }

    @BeforeEach
    void reset() {
        control.reset();
    }

    @AfterAll
    static void close() {
        BROKER.close();
    }

    private static void assertRefused(String code, Executable call) {
        assertEquals(code, assertThrows(ControlException.class, call).code());
    }

    /** Runs a call that waits in vain, or finds what should not be there: the message shows the broker's topics. */
    private static void assertFails(String code, Executable call) {
        ControlException error = assertThrows(ControlException.class, call);
        assertEquals(code, error.code());
        assertTrue(error.getMessage().contains("\ntopics:"), error.getMessage());
    }

    /** Sends an ApiVersions request of version 0, which Kafka clients send first. */
    private static void ask(String clientId) throws IOException {
        String[] address = BROKER.bootstrapServers().split(",")[0].split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(10 + clientId.length());
            out.writeShort(18);
            out.writeShort(0);
            out.writeInt(7);
            out.writeUTF(clientId);
            DataInputStream in = new DataInputStream(socket.getInputStream());
            in.readNBytes(in.readInt());
        }
    }

    @Test
    void schemas() throws IOException, InterruptedException {
        String schema = "{\\\"type\\\":\\\"record\\\",\\\"name\\\":\\\"Order\\\",\\\"fields\\\":"
            + "[{\\\"name\\\":\\\"id\\\",\\\"type\\\":\\\"int\\\"}]}";
        URI url = URI.create(BROKER.registryUrl() + "/subjects/orders-value/versions");
        HttpRequest request = HttpRequest.newBuilder(url).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString("{\"schema\": \"" + schema + "\"}")).build();
        assertEquals(200, HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding()).statusCode());
        control.reset(false, true);
        Map<String, String> options = Map.of("schema", "orders-value", "key_schema", "orders-value");
        control.produce("orders", options, NewRecord.of(Map.of("id", 6), Map.of("id", 7)));
        Answers.ConsumedRecord found = control.expect("orders", Expected.ofValue(Map.of("id", 7)), Format.JSON);
        assertEquals(Map.of("id", 6L), found.key());
    }

    @Test
    void topics() {
        NewTopic orders = NewTopic.named("orders").partitions(3).replicationFactor(2);
        Answers.Topic made = control.createTopic(orders.configs(Map.of("retention.ms", 1000)));
        assertEquals(3, made.partitions());
        assertEquals(Map.of("retention.ms", "1000"), made.configs());
        assertTrue(control.createTopic(NewTopic.withPrefix("test-")).name().startsWith("test-"));
        Answers.TopicList page = control.listTopics("given", 1);
        assertEquals(List.of("orders"), page.topics().stream().map(Answers.Topic::name).toList());
        assertEquals("orders", page.nextAfter());
        assertEquals(made, control.describeTopic("orders"));
        control.configureTopic("orders", Map.of("retention.ms", 5));
        assertEquals("5", control.readTopicConfigs("orders").get("retention.ms"));
        control.deleteTopic("orders");
        assertRefused("not_found", () -> control.describeTopic("orders"));
    }

    @Test
    void records() {
        List<Answers.RecordMetadata> places = control.produce(
            "given",
            Map.of("message_format", "v2", "codec", "gzip"),
            NewRecord.of("k", Map.of("id", 1, "state", "new \"\n\u00e9")).partition(0).timestamp(5)
                .header("trace", "a").header("trace", new byte[] {-1}),
            NewRecord.of(new byte[] {-2}, null).partition(0),
            NewRecord.of(Map.of("json", "quoted")).partition(0));
        assertEquals(new Answers.RecordMetadata("given", 0, 1), places.get(1));

        ReadOptions options = new ReadOptions().partition(0).start(1).uncommitted().limit(10).format(Format.BASE64);
        List<Answers.ConsumedRecord> records = control.readRecords("given", options).records();
        assertArrayEquals(new byte[] {-2}, Format.bytes(records.get(0).key()));
        assertNull(records.get(0).value());
        assertEquals("\"quoted\"", new String(Format.bytes(records.get(1).value())));
        assertEquals(1, control.readRecords("given", new ReadOptions().limit(1)).nextOffsets().get("0"));

        Expected expected = Expected.ofKey("k").value(Map.of("id", 1)).header("trace", "a").partition(0);
        Answers.ConsumedRecord record = control.expect("given", expected, LONG, Format.JSON);
        assertEquals(Map.of("id", 1L, "state", "new \"\n\u00e9"), record.value());
        assertEquals(new Answers.Header("trace", "a"), record.headers().get(0));
        control.expect("given", Expected.ofKey(new byte[] {-2}).value(null), Format.TEXT);
        expected.offset(0).timestamp(5);
        assertEquals(0, control.waitForRecords("given", 1, expected, LONG, Format.TEXT).get(0).offset());
        assertFails(
            "timeout", () -> control.waitForRecords("given", 4, Expected.any(), Duration.ZERO, Format.TEXT));

        assertEquals(record, control.expect("given", Expected.ofKey("k"), null, Format.JSON));
        List<Answers.ConsumedRecord> all = control.waitForRecords("given", 3, Format.TEXT);
        assertEquals(all, control.waitForRecords("given", 3, Expected.any(), null, Format.TEXT));
        assertEquals(all, control.readRecords("given", Format.TEXT));
        Executable nothing = () -> control.expect("given", null, Format.TEXT);
        assertTrue(assertThrows(NullPointerException.class, nothing).getMessage().contains("Expected.any()"));

        assertTrue(control.expectNone("givn", Expected.any(), Duration.ZERO).get(0).contains("given"));
        Expected absent = Expected.ofKey("z").value("z").header("z", null).partition(1);
        assertEquals(List.of(), control.expectNone("given", absent, Duration.ofMillis(1)));
        assertFails("unexpected", () -> control.expectNone("given", Expected.ofKey("k"), Duration.ZERO));
    }

    @Test
    void groups() {
        assertEquals(List.of(), control.listGroups("a", 5).groups());
        assertEquals("Dead", control.describeGroup("team/a b").state());
        for (String group : List.of("a/lag", "/committed")) {
            assertEquals(group, control.describeGroup(group).groupId());
        }
        assertEquals(List.of(), control.committedOffsets("team/a"));
        Answers.Lag lag = control.groupLag("team/a");
        assertEquals(0, lag.total());
        assertEquals(1, lag.warnings().size());
        assertEquals(List.of(), control.sharePartitions("team/a"));
        assertFails("timeout", () -> control.waitUntilStable("team/a", 1, Duration.ZERO));
        assertFails("timeout", () -> control.waitUntilCaughtUp("team/a", "given", Duration.ZERO));
        assertRefused("conflict", () -> control.rebalance("team/a"));
    }

    @Test
    void checks() {
        List<String> topics = List.of("given");
        Answers.CheckedApplication checked = control.checkApplication(
                "no_zombie_writes",
                Map.of(
                        "inputs", topics,
                        "outputs", topics,
                        "key", "value",
                        "output_key", "json:id",
                        "expected", Map.of("a", List.of("b")),
                        "group", "team",
                        "instances", Map.of("c", "d"),
                        "timeout", 1));
        assertEquals("passed", checked.outcome());
        assertEquals(List.of(), checked.findings());
    }

    @Test
    void chaos() {
        Map<String, Object> fields = new HashMap<>(Map.of("seed", 7, "profile", "network"));
        fields.putAll(Map.of("only", List.of("answer-late"), "without", List.of("throttled")));
        Answers.ChaosRun started = control.startChaos(fields);
        assertEquals(7, started.seed());
        assertEquals("network", started.profile());
        assertEquals(List.of(), control.readChaos().steps());
        assertEquals(false, control.settleChaos().isFelt());
        assertEquals(2, control.stopChaos().report().size());
        assertNull(control.startChaos(Map.of("steps", List.of())).seed());
        control.stopChaos();
    }

    @Test
    void settings() {
        assertEquals(1, control.configure(Map.of("log.retention.ms", 60000, "log.retentoin.ms", 1)).size());
        assertEquals(List.of(), control.configure(Collections.singletonMap("log.retention.ms", null)));
        control.setQuota(Map.of("user", "alice"), Map.of("producer_byte_rate", 1e6));
        List<NewRule> rules = List.of(
            NewRule.deny("alice", "read").topic("o").prefixed().host("10.0.0.1"),
            NewRule.allow("alice", "read").group("g"),
            NewRule.allow("alice", "write").transactionalId("t"),
            NewRule.allow("alice", "alter").cluster());
        rules.forEach(rule -> assertEquals("User:alice", control.createAcls(rule).get(0).principal()));
        assertEquals(4, control.listAcls().size());
        control.deleteAcls();
        assertEquals(List.of(), control.readTelemetry());
    }

    @Test
    void timeAndSnapshots(@TempDir Path folder) {
        Instant before = control.readClock();
        assertTrue(control.advanceClock(Duration.ofHours(1)).isAfter(before.plusSeconds(3599)));
        assertEquals(0, control.runRetention());
        control.createTopic(NewTopic.named("c").configs(Map.of("cleanup.policy", "compact")));
        control.compact("c");

        control.produce("given", NewRecord.of("kept"));
        String directory = folder.resolve("one").toString();
        Answers.Snapshot taken = control.takeSnapshot("a/b", directory);
        control.reset(true);
        control.restoreSnapshot("a/b");
        control.expect("given", Expected.ofValue("kept"), Format.TEXT);
        assertEquals(List.of(taken), control.listSnapshots());
        control.deleteSnapshot("a/b");
        control.reset();
        control.restoreDirectory(directory);
        control.expect("given", Expected.ofValue("kept"), Format.TEXT);
    }

    @Test
    void brokersAndHealth() {
        List<Answers.Node> nodes = control.listBrokers();
        assertEquals(2, nodes.size());
        control.moveLeader("given", 0, nodes.get(1).nodeId());
        assertEquals(nodes.get(1).nodeId(), control.readLeader("given", 0));
        nodes.forEach(node -> assertEquals(false, control.stopBroker(node.nodeId()).isUp()));
        assertEquals("down", control.readyz().status());
        nodes.forEach(node -> assertEquals(true, control.startBroker(node.nodeId()).isUp()));
        assertEquals("ok", control.readyz().status());
        assertEquals("ok", control.healthz().status());
        assertEquals(BROKER.bootstrapServers(), control.about().bootstrapServers());
        assertTrue(control.metrics().contains("kafka_server_"));
    }

    @Test
    void faultsAndJournal() throws IOException {
        assertTrue(control.beginJournal(100).isKept());
        Fault fault = new Fault().api("ApiVersions").clientId("java-*").delayMs(1).times(1);
        String id = control.addFault(fault).id();
        ask("java-first");
        ask("java-second");
        RequestFilter ours = new RequestFilter().api("ApiVersions").clientId("java-*");
        List<Answers.JournalEntry> requests = control.waitForRequests(2, ours, LONG).requests();
        assertEquals("java-second", requests.get(1).clientId());
        ours.after(requests.get(0).number()).limit(5);
        assertEquals(requests.subList(1, 2), control.listRequests(ours).requests());
        RequestFilter none = new RequestFilter().topic("given").group("g").error("NOT_COORDINATOR");
        assertEquals(List.of(), control.listRequests(none).requests());
        assertFails("timeout", () -> control.waitForRequests(1, none, Duration.ZERO));

        Answers.FaultHits hits = control.readFault(id);
        assertEquals(1, hits.fired());
        assertEquals("ApiVersions", hits.hits().get(0).api());
        assertEquals(1L, control.removeFault(id).fault().get("times"));
        List<Fault> faults = List.of(
            new Fault().versions("0-3").node(1).topic("given").partition(0).nth(2).error("NOT_LEADER_OR_FOLLOWER"),
            new Fault().api("JoinGroup").group("g").after(1).probability(0.5).seed(0).drop("before"),
            new Fault().api("EndTxn").transactionalId("t").disconnect("after"),
            new Fault().api("OffsetCommit").late(2),
            new Fault().api("Produce").error("REQUEST_TIMED_OUT").applied(),
            new Fault().api("Fetch").fetchBytes(0),
            new Fault().api("Heartbeat").blackHole(),
            new Fault().api("Heartbeat").truncate(0),
            new Fault().api("Fetch").corrupt("records"),
            new Fault().api("Metadata").staleMetadata(1).throttleMs(5),
            new Fault().api("Heartbeat").jitterMs(1).bytesPerSecond(1000).sliceBytes(100));
        faults.forEach(control::addFault);
        assertEquals(faults.size(), control.listFaults().size());
        control.clearFaults();
        control.forgetRequests();
        control.endJournal();
        assertEquals(false, control.readJournal().isKept());
    }

    @Test
    void errorsNameTheirCause() {
        ControlException error = assertThrows(ControlException.class, () -> control.describeTopic("gvien"));
        String message = "there is no topic 'gvien'; topics: given; did you mean given?";
        assertEquals("minibroker: GET /topics/gvien: 404 not_found: " + message, error.getMessage());
        assertRefused("unauthorized", () -> new ControlClient(control.url(), "wrong").listBrokers());
        ControlClient nowhere = new ControlClient("http://127.0.0.1:1/");
        assertTrue(assertThrows(UncheckedIOException.class, nowhere::about).getMessage()
            .startsWith("minibroker: no answer of the control plane at http://127.0.0.1:1: "));
        NewRecord foreign = NewRecord.of(Instant.EPOCH);
        assertTrue(assertThrows(IllegalArgumentException.class, () -> control.produce("given", foreign)).getMessage()
            .contains("java.time.Instant is not JSON"));
    }

    @Test
    void aBrokerThatDoesNotStartIsAnErrorWithItsWords() {
        Minibroker.Options wrong = Minibroker.options().topic("a:0").stderr(line -> {});
        String message = assertThrows(IllegalStateException.class, wrong::start).getMessage();
        assertTrue(message.contains("has ended before it was ready\nminibroker: topic 'a': Number of part"), message);
        Minibroker.Options missing = Minibroker.options().command("no-such-program");
        assertTrue(assertThrows(UncheckedIOException.class, missing::start).getMessage().contains("MINIBROKER_BINARY"));
    }

    @Test
    void aBrokerIsStoppedOnce() {
        Minibroker other = Minibroker.options().start();
        other.close();
        other.close();
        assertThrows(UncheckedIOException.class, () -> other.control().healthz());
    }

    @Test
    void jsonIsWrittenAsItIsRead() {
        Object value = Json.parse(" {\"a\": [1, -2.5e3, true, null, {}], \"\\u00e9\\n\\\"\": \"\", \"b\": []}");
        assertEquals(value, Json.parse(Json.write(value)));
        assertEquals(Arrays.asList(1L, -2500.0, true, null, Map.of()), ((Map<?, ?>) value).get("a"));
        for (String broken : List.of("", "{", "[1 2]", "{\"a\" 1}", "\"", "nul", "1 2", "{1: 2}")) {
            assertThrows(IllegalArgumentException.class, () -> Json.parse(broken), broken);
        }
        assertThrows(IllegalArgumentException.class, () -> Json.write(Double.NaN));
    }
}
