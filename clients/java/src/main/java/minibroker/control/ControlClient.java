package minibroker.control;

import static minibroker.control.Answers.*;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Type;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * A client of one control plane. Each method sends one request and has the operation's name in docs/control-plane.md.
 *
 * <p>An error response throws a ControlException, and a missing response an UncheckedIOException. Clients are
 * thread-safe.
 */
public final class ControlClient {
    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private final String url;
    private final String token;

    /** A client of the control plane at a URL such as http://127.0.0.1:9900. */
    public ControlClient(String url) {
        this(url, null);
    }

    /** A client of a control plane that requires the token of `serve --control-token`. */
    public ControlClient(String url, String token) {
        this.url = url.replaceAll("/+$", "");
        this.token = token;
    }

    public String url() {
        return url;
    }

    public TopicList listTopics(String after, int limit) {
        return get(TopicList.class, "/topics" + query(page(after, limit)));
    }

    public Topic createTopic(NewTopic topic) {
        return post(Topic.class, "/topics", topic.map);
    }

    public Topic describeTopic(String topic) {
        return get(Topic.class, path("topics", topic));
    }

    public void deleteTopic(String topic) {
        call("DELETE", path("topics", topic), null);
    }

    /** Appends records without a Kafka client. A missing topic is created. */
    public List<RecordMetadata> produce(String topic, NewRecord... records) {
        return produce(topic, Map.of(), records);
    }

    /**
     * Appends records with the options message_format (v2, v1, v0), codec (none, gzip, snappy, lz4, zstd), and schema and
     * key_schema, which are subjects whose latest schemas encode the values and the keys.
     */
    public List<RecordMetadata> produce(String topic, Map<String, String> options, NewRecord... records) {
        Map<String, Object> body = new LinkedHashMap<>(options);
        body.put("records", maps(records));
        return list(RecordMetadata.class, "records", call("POST", path("topics", topic, "records"), body));
    }

    /** Returns the committed records of a topic, at most 10,000. */
    public List<ConsumedRecord> readRecords(String topic, Format format) {
        return readRecords(topic, new ReadOptions().format(format)).records();
    }

    public RecordPart readRecords(String topic, ReadOptions options) {
        return get(RecordPart.class, path("topics", topic, "records") + query(options.map));
    }

    /** Waits ten seconds until a topic has this many committed records, and returns all of them. */
    public List<ConsumedRecord> waitForRecords(String topic, int count, Format format) {
        return waitForRecords(topic, count, Expected.any(), null, format);
    }

    /** Like {@link #waitForRecords(String, int, Format)}, for matching records only. A null timeout is ten seconds. */
    public List<ConsumedRecord> waitForRecords(String topic, int count, Expected matching, Duration timeout, Format format) {
        Map<String, Object> body = body("timeout", timeout);
        body.put("count", count);
        body.put("matching", criteria(matching));
        return list(ConsumedRecord.class, "records", call("POST", records(topic, "wait", format), body));
    }

    /** Waits ten seconds for a record and returns it. The exception compares it with the existing records. */
    public ConsumedRecord expect(String topic, Expected expected, Format format) {
        return expect(topic, expected, null, format);
    }

    public ConsumedRecord expect(String topic, Expected expected, Duration timeout, Format format) {
        Map<String, Object> body = body("timeout", timeout);
        body.putAll(criteria(expected));
        return post(ConsumedRecord.class, records(topic, "expect", format), body);
    }

    /**
     * Throws a ControlException with the code unexpected if a topic has a matching record or gets one within the time. It
     * checks once for null.
     * Returns warnings, such as for a topic whose name is probably misspelled.
     */
    public List<String> expectNone(String topic, Expected absent, Duration within) {
        Map<String, Object> body = body("within", within);
        body.putAll(criteria(absent));
        return warnings(call("POST", path("topics", topic, "records", "expect-none"), body));
    }

    public GroupIds listGroups(String after, int limit) {
        return get(GroupIds.class, "/groups" + query(page(after, limit)));
    }

    public List<Committed> committedOffsets(String group) {
        return list(Committed.class, "partitions", call("GET", path("groups", group, "committed"), null));
    }

    public Lag groupLag(String group) {
        return get(Lag.class, path("groups", group, "lag"));
    }

    /** Returns the records that a share group has in flight. */
    public List<SharePartition> sharePartitions(String group) {
        return list(SharePartition.class, "partitions", call("GET", path("groups", group, "share-partitions"), null));
    }

    /** Waits until every member has its assignment. The group must have this many members, or any number for null. */
    public Group waitUntilStable(String group, Integer members, Duration timeout) {
        Map<String, Object> body = body("timeout", timeout);
        body.put("members", members);
        return post(Group.class, path("groups", group, "wait-until-stable"), body);
    }

    /** Waits until a group has read and committed all records of a topic, or of all topics for null. */
    public List<Committed> waitUntilCaughtUp(String group, String topic, Duration timeout) {
        Map<String, Object> body = body("timeout", timeout);
        body.put("topic", topic);
        return list(Committed.class, "partitions", call("POST", path("groups", group, "wait-until-caught-up"), body));
    }

    public void rebalance(String group) {
        call("POST", path("groups", group, "rebalance"), null);
    }

    public Group describeGroup(String group) {
        return get(Group.class, path("groups", group));
    }

    /** Alters configuration keys of the broker. Null restores a default. Returns warnings. */
    public List<String> configure(Map<String, ?> configs) {
        return warnings(call("POST", "/configs", Map.of("configs", configs)));
    }

    public Map<String, String> readTopicConfigs(String topic) {
        return Json.to(Object.class, member("configs", call("GET", path("topics", topic, "configs"), null)));
    }

    /** Alters configuration keys of a topic. Null restores a default. */
    public void configureTopic(String topic, Map<String, ?> configs) {
        call("POST", path("topics", topic, "configs"), Map.of("configs", configs));
    }

    /**
     * Limits a user, a client-id, both, or an ip. Null in the entity is the default entity, and a null limit is
     * removed.
     */
    public void setQuota(Map<String, String> entity, Map<String, ? extends Number> limits) {
        call("POST", "/quotas", Map.of("entity", entity, "limits", limits));
    }

    public List<Rule> listAcls() {
        return list(Rule.class, "acls", call("GET", "/acls", null));
    }

    public List<Rule> createAcls(NewRule rule) {
        return list(Rule.class, "acls", call("POST", "/acls", rule.map));
    }

    public void deleteAcls() {
        call("DELETE", "/acls", null);
    }

    public List<Push> readTelemetry() {
        return list(Push.class, "pushes", call("GET", "/telemetry", null));
    }

    public Instant readClock() {
        return Instant.ofEpochMilli((Long) member("now_ms", call("GET", "/clock", null)));
    }

    /** Advances the broker's clock and returns the new time. */
    public Instant advanceClock(Duration by) {
        Object body = Map.of("seconds", by.toMillis() / 1000.0);
        return Instant.ofEpochMilli((Long) member("now_ms", call("POST", "/clock/advance", body)));
    }

    /** Runs retention now and returns the number of deleted segments. */
    public long runRetention() {
        return (Long) member("deleted_segments", call("POST", "/retention/run", null));
    }

    /** Compacts a topic, or all compacted topics for null. */
    public void compact(String topic) {
        call("POST", "/compact", Collections.singletonMap("topic", topic));
    }

    /** Deletes all records, groups, transactions, faults and topics, and creates the topics of the start again. */
    public void reset() {
        reset(false);
    }

    public void reset(boolean keepTopics) {
        reset(keepTopics, false);
    }

    /** Like {@link #reset(boolean)}, but can also keep the subjects of the schema registry. */
    public void reset(boolean keepTopics, boolean keepSchemas) {
        call("POST", "/reset", Map.of("keep_topics", keepTopics, "keep_schemas", keepSchemas));
    }

    public List<Snapshot> listSnapshots() {
        return list(Snapshot.class, "snapshots", call("GET", "/snapshots", null));
    }

    /**
     * Takes a snapshot of all topics, records, groups and transactions. The broker chooses a name or directory that is
     * null.
     */
    public Snapshot takeSnapshot(String name, String directory) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("name", name);
        body.put("directory", directory);
        return post(Snapshot.class, "/snapshots", body);
    }

    public void restoreSnapshot(String name) {
        call("POST", path("snapshots", name, "restore"), null);
    }

    public void deleteSnapshot(String name) {
        call("DELETE", path("snapshots", name), null);
    }

    /** Replaces the broker's state with the snapshot in a directory on the broker's machine. */
    public void restoreDirectory(String directory) {
        call("POST", "/restore", Map.of("directory", directory));
    }

    public List<Node> listBrokers() {
        return list(Node.class, "brokers", call("GET", "/brokers", null));
    }

    public Node stopBroker(int nodeId) {
        return post(Node.class, path("brokers", nodeId, "stop"), null);
    }

    public Node startBroker(int nodeId) {
        return post(Node.class, path("brokers", nodeId, "start"), null);
    }

    /** Returns the id of the leader, or null while there is none. */
    public Integer readLeader(String topic, int partition) {
        return Json.to(Integer.class, member("node_id", call("GET", leaderOf(topic, partition), null)));
    }

    public void moveLeader(String topic, int partition, int nodeId) {
        call("PUT", leaderOf(topic, partition), Map.of("node_id", nodeId));
    }

    public JournalInfo readJournal() {
        return get(JournalInfo.class, "/journal");
    }

    /** Starts a journal that keeps the newest requests. */
    public JournalInfo beginJournal(int capacity) {
        return Json.to(JournalInfo.class, call("PUT", "/journal", Map.of("capacity", capacity)));
    }

    public void endJournal() {
        call("DELETE", "/journal", null);
    }

    public JournalEntries listRequests(RequestFilter filter) {
        return get(JournalEntries.class, "/requests" + query(filter.map));
    }

    public void forgetRequests() {
        call("DELETE", "/requests", null);
    }

    /** Waits for this many matching requests, and returns all of them. */
    public JournalEntries waitForRequests(int count, RequestFilter filter, Duration timeout) {
        Map<String, Object> body = body("timeout", timeout);
        body.putAll(filter.map);
        body.put("count", count);
        return post(JournalEntries.class, "/requests/wait", body);
    }

    public List<InstalledFault> listFaults() {
        return list(InstalledFault.class, "faults", call("GET", "/faults", null));
    }

    /**
     * Makes the broker misbehave as a Kafka cluster may, until {@link #stopChaos}. Chaos that is running ends first.
     * {@code fields} has a {@code seed} or the {@code steps} of an earlier run, and the other fields of POST /chaos.
     */
    public ChaosRun startChaos(Map<String, ?> fields) {
        return post(ChaosRun.class, "/chaos", fields);
    }

    /** Returns what has happened so far. */
    public ChaosRun readChaos() {
        return Json.to(ChaosRun.class, call("GET", "/chaos", null));
    }

    /** Begins the quiet phase: nothing new goes wrong, what is late is applied, and what is held is released. */
    public ChaosRun settleChaos() {
        return post(ChaosRun.class, "/chaos/settle", Map.of());
    }

    /** Begins the quiet phase, ends the chaos, and returns what has happened. */
    public ChaosRun stopChaos() {
        return Json.to(ChaosRun.class, call("DELETE", "/chaos", null));
    }

    /**
     * Judges an application by what the broker saw of it. {@code about} has {@code inputs}, {@code outputs}, {@code key}
     * and the other fields of POST /check. A test fails unless the outcome is "passed".
     */
    public CheckedApplication checkApplication(String check, Map<String, ?> about) {
        Map<String, Object> body = new LinkedHashMap<>(about);
        body.put("check", check);
        return post(CheckedApplication.class, "/check", body);
    }

    public InstalledFault addFault(Fault fault) {
        return post(InstalledFault.class, "/faults", fault.map);
    }

    public void clearFaults() {
        call("DELETE", "/faults", null);
    }

    public FaultHits readFault(String id) {
        return get(FaultHits.class, path("faults", id));
    }

    public FaultHits removeFault(String id) {
        return Json.to(FaultHits.class, call("DELETE", path("faults", id), null));
    }

    public BrokerInfo about() {
        return get(BrokerInfo.class, "/");
    }

    public Status healthz() {
        return get(Status.class, "/healthz");
    }

    /** Returns "down" while no broker is up. */
    public Status readyz() {
        try {
            return get(Status.class, "/readyz");
        } catch (ControlException error) {
            if (error.answer() instanceof Map<?, ?> answer && answer.get("status") instanceof String status) {
                return new Status(status);
            }
            throw error;
        }
    }

    /** Returns the broker's metrics in Prometheus' text format. */
    public String metrics() {
        return send("GET", "/metrics", null).body();
    }

    private static Map<String, Object> page(String after, int limit) {
        Map<String, Object> query = new LinkedHashMap<>();
        if (after != null) {
            query.put("after", after);
        }
        query.put("limit", limit);
        return query;
    }

    /** Returns a body with a time in seconds, or without it for null, which is the broker's default. */
    private static Map<String, Object> body(String name, Duration time) {
        Map<String, Object> body = new LinkedHashMap<>();
        if (time != null) {
            body.put(name, time.toMillis() / 1000.0);
        }
        return body;
    }

    private static Map<String, Object> criteria(Expected expected) {
        return Objects.requireNonNull(expected, "minibroker: no expectation; Expected.any() is any record").map;
    }

    private static List<Object> maps(NewRecord[] records) {
        List<Object> maps = new ArrayList<>();
        for (NewRecord each : records) {
            maps.add(each.map);
        }
        return maps;
    }

    private static String records(String topic, String verb, Format format) {
        return path("topics", topic, "records", verb) + "?format=" + format.name().toLowerCase(Locale.ROOT);
    }

    private static String leaderOf(String topic, int partition) {
        return path("topics", topic, "partitions", partition, "leader");
    }

    private static String path(Object... segments) {
        StringBuilder path = new StringBuilder();
        for (Object each : segments) {
            path.append('/').append(encoded(each));
        }
        return path.toString();
    }

    private static String query(Map<String, Object> fields) {
        StringBuilder query = new StringBuilder();
        fields.forEach((name, value) ->
            query.append(query.length() == 0 ? '?' : '&').append(name).append('=').append(encoded(value)));
        return query.toString();
    }

    private static String encoded(Object value) {
        return URLEncoder.encode(value.toString(), StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static Object member(String name, Object answer) {
        return ((Map<?, ?>) answer).get(name);
    }

    private static <T> List<T> list(Class<T> type, String name, Object answer) {
        List<T> list = new ArrayList<>();
        for (Object each : (List<?>) member(name, answer)) {
            list.add(Json.to(type, each));
        }
        return list;
    }

    private static List<String> warnings(Object answer) {
        return answer == null ? List.of() : list(String.class, "warnings", answer);
    }

    private <T> T get(Type type, String path) {
        return Json.to(type, call("GET", path, null));
    }

    private <T> T post(Type type, String path, Object body) {
        return Json.to(type, call("POST", path, body));
    }

    /** Returns the decoded response, or null without a body. */
    private Object call(String method, String path, Object body) {
        String answer = send(method, path, body).body();
        return answer.isEmpty() ? null : Json.parse(answer);
    }

    private HttpResponse<String> send(String method, String path, Object body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
        if (body == null) {
            request.method(method, HttpRequest.BodyPublishers.noBody());
        } else {
            request.method(method, HttpRequest.BodyPublishers.ofString(Json.write(body)));
            request.header("Content-Type", "application/json");
        }
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        try {
            HttpResponse<String> response = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() >= 400) {
                throw problem(method + " " + path, response);
            }
            return response;
        } catch (IOException error) {
            String reason = "minibroker: no answer of the control plane at " + url + ": " + error;
            throw new UncheckedIOException(reason, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("minibroker: interrupted during " + method + " " + path, error);
        }
    }

    private static ControlException problem(String request, HttpResponse<String> response) {
        Object answer = null;
        try {
            answer = Json.parse(response.body());
        } catch (IllegalArgumentException error) {
            // The body is not JSON: see below.
        }
        if (answer instanceof Map<?, ?> map && map.get("error") instanceof String code) {
            return new ControlException(request, response.statusCode(), code, (String) map.get("message"), answer);
        }
        String reason = "not an answer of a control plane: " + response.body();
        return new ControlException(request, response.statusCode(), "foreign", reason, answer);
    }
}
