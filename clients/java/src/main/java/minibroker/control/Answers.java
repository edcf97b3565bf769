// Made by `make clients`, from the OpenAPI document (0a864022bd6e9fe2): change that.
package minibroker.control;

import java.util.List;
import java.util.Map;

/** The objects in answers of the control plane. */
public final class Answers {
    private Answers() {}

    /**
     * An assigned partition.
     */
    public record Assigned(
        String topic,
        int partition) {}

    /**
     * The brokers as a whole.
     * @param bootstrapServers The `bootstrap.servers` of clients.
     */
    public record BrokerInfo(
        String name,
        String version,
        String clusterId,
        String bootstrapServers,
        Integer controller,
        String registryUrl) {}

    /**
     * What has happened under chaos. `POST /chaos` repeats it if all of this is passed as `steps`.
     * @param chaos The version of the steps.
     * @param isFelt Whether a client has reacted. Otherwise the run has shown nothing.
     * @param met The numbers of repeated steps that happened exactly, at a later attempt, and not at all.
     * @param report The same in lines of text.
     */
    public record ChaosRun(
        int chaos,
        Long seed,
        String profile,
        List<ChaosStep> steps,
        boolean isFelt,
        List<Integer> met,
        List<String> report) {}

    /**
     * A misbehavior of the broker that happened at a request.
     * @param row The name of the misbehaviour.
     * @param point The name of the point.
     * @param attempt The attempt at this point, from 0 on.
     * @param parameters The strength of the misbehaviour, such as `delay_ms`.
     * @param number The number of the request.
     * @param felt What the client did next, or "nothing".
     */
    public record ChaosStep(
        String row,
        String point,
        int attempt,
        Map<String, Integer> parameters,
        long number,
        String felt) {}

    /**
     * Something that an application did wrong.
     * @param check The name of the check.
     * @param certain Whether the broker has seen all of it. Otherwise it is likely.
     * @param summary What happened, in a sentence or two.
     * @param topic The topic of the record or committed offset, or "" for a group as a whole.
     * @param partition Its partition, or -1.
     * @param offset Its offset, or -1.
     * @param timeLine What the broker saw before, at most 20 lines in order.
     */
    public record CheckFinding(
        String check,
        boolean certain,
        String summary,
        String topic,
        int partition,
        long offset,
        List<String> timeLine) {}

    /**
     * The result of a check.
     * @param check The name of the check.
     * @param outcome `passed`, `failed` if there are findings, or `inconclusive`.
     * @param reasons Why the check could not decide, or not decide all of it.
     * @param findings The certain ones first.
     */
    public record CheckedApplication(
        String check,
        String outcome,
        List<String> reasons,
        List<CheckFinding> findings) {}

    /**
     * The committed offset of a partition.
     */
    public record Committed(
        String topic,
        int partition,
        long offset) {}

    /**
     * A record as a consumer receives it, with details of its storage.
     * @param timestamp ms since the epoch; -1 in format v0.
     * @param timestampType `CreateTime`, `LogAppendTime`, or `NoTimestampType`.
     * @param key Shown according to `format`.
     * @param value Shown according to `format`.
     * @param messageFormat 0, 1 or 2.
     * @param producerId -1 for a producer that is not idempotent.
     */
    public record ConsumedRecord(
        String topic,
        int partition,
        long offset,
        long timestamp,
        String timestampType,
        Object key,
        Object value,
        List<Header> headers,
        int messageFormat,
        String codec,
        long producerId) {}

    /**
     * A key and a value, shown as with the format `json`.
     * @param key 
     * @param value 
     */
    public record DecodedPair(
        Object key,
        Object value) {}

    /**
     * A fault and the requests that it has hit.
     * @param fired The number of requests that the fault has hit.
     * @param fault The fields of the fault.
     * @param hits The newest 1000 requests.
     */
    public record FaultHits(
        String id,
        long fired,
        Map<String, Object> fault,
        List<JournalEntry> hits) {}

    /**
     * The state of a group at one moment.
     * @param type `classic`, `consumer`, `share` or `streams`: the protocol of its members.
     * @param state Kafka's name of the state: `Empty`, `Stable`, `Dead`, or the name of a rebalancing state.
     * @param generation The generation of a `classic` group, or the epoch of any other group.
     */
    public record Group(
        String groupId,
        String type,
        String state,
        boolean isStable,
        int generation,
        String protocol,
        List<Member> members) {}

    /**
     * A page of consumer group ids.
     */
    public record GroupIds(
        List<String> groups,
        String nextAfter) {}

    /**
     * A header of a record.
     * @param value Shown according to `format`.
     */
    public record Header(
        String name,
        Object value) {}

    /**
     * Consecutive offsets that were delivered to a share group and have the same state.
     * @param lastOffset The last offset, included.
     * @param state Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`.
     * @param deliveryCount The number of times that each record was delivered.
     */
    public record InFlight(
        long firstOffset,
        long lastOffset,
        String state,
        int deliveryCount,
        String memberId) {}

    /**
     * An installed fault. Warnings appear only in the response to the request that installs the fault.
     * @param fired The number of requests that the fault has hit.
     * @param fault The fields of the fault.
     */
    public record InstalledFault(
        String id,
        long fired,
        Map<String, Object> fault,
        List<String> warnings) {
        public InstalledFault(String id, long fired, Map<String, Object> fault) {
            this(id, fired, fault, null);
        }
    }

    /**
     * Client requests and their responses, oldest first.
     * @param count The number of all requests, including filtered and dropped ones.
     */
    public record JournalEntries(
        long count,
        List<JournalEntry> requests) {}

    /**
     * One request and its response.
     * @param time Arrival by the broker's clock, in ms since the epoch.
     * @param connection Both addresses, the broker's first.
     * @param node The id of the broker that received it.
     * @param errors The names of the errors in the response.
     * @param records The records of a small request and its response, decoded, if the broker has schemas.
     */
    public record JournalEntry(
        long number,
        long time,
        String connection,
        int node,
        String clientHost,
        String clientId,
        String api,
        int version,
        int correlationId,
        Object request,
        Object response,
        List<String> errors,
        Double durationMs,
        long bytesIn,
        long bytesOut,
        Map<String, Object> fault,
        String chaos,
        String failure,
        List<DecodedPair> records) {}

    /**
     * The state of the journal.
     * @param count The number of requests since the journal was started.
     */
    public record JournalInfo(
        boolean isKept,
        long count) {}

    /**
     * The lag of a group.
     */
    public record Lag(
        long total,
        List<PartitionLag> partitions,
        List<String> warnings) {
        public Lag(long total, List<PartitionLag> partitions) {
            this(total, partitions, null);
        }
    }

    /**
     * A member of a group.
     */
    public record Member(
        String memberId,
        String groupInstanceId,
        String clientId,
        String clientHost,
        List<Assigned> partitions) {}

    /**
     * A metric of a client.
     */
    public record Metric(
        String name,
        double value) {}

    /**
     * A broker.
     * @param address The listening address, as HOST:PORT.
     */
    public record Node(
        int nodeId,
        boolean isUp,
        String address,
        String rack) {
        public Node(int nodeId, boolean isUp, String address) {
            this(nodeId, isUp, address, null);
        }
    }

    /**
     * The lag of a group in one partition.
     */
    public record PartitionLag(
        String topic,
        int partition,
        long lag) {}

    /**
     * The appended records, in order.
     */
    public record ProducedRecords(
        List<RecordMetadata> records,
        List<String> warnings) {
        public ProducedRecords(List<RecordMetadata> records) {
            this(records, null);
        }
    }

    /**
     * The metrics that a client has sent in one request.
     * @param timestamp Time of arrival, in milliseconds since the epoch.
     * @param isLast Whether the client announced that it is closing.
     */
    public record Push(
        String clientInstanceId,
        String clientId,
        String clientHost,
        long timestamp,
        boolean isLast,
        List<Metric> metrics) {}

    /**
     * The partition and the offset of a new record.
     */
    public record RecordMetadata(
        String topic,
        int partition,
        long offset) {}

    /**
     * Some records of a topic, ordered by partition.
     * @param nextOffsets The next `start` by partition, or empty after the last record.
     */
    public record RecordPart(
        List<ConsumedRecord> records,
        Map<String, Long> nextOffsets) {}

    /**
     * An access rule.
     */
    public record Rule(
        String resourceType,
        String resourceName,
        String patternType,
        String principal,
        String host,
        String operation,
        String permission) {}

    /**
     * The state of a share-partition (KIP-932).
     * @param acquired The number of offsets acquired by members.
     */
    public record SharePartition(
        String topic,
        int partition,
        Long startOffset,
        Long lag,
        long acquired,
        List<InFlight> inFlight) {}

    /**
     * A snapshot.
     */
    public record Snapshot(
        String name,
        String directory) {}

    /**
     * The state of the broker.
     */
    public record Status(
        String status) {}

    /**
     * A topic.
     * @param topicId The id in Kafka's text format.
     * @param configs The values that differ from the broker's defaults.
     */
    public record Topic(
        String name,
        String topicId,
        int partitions,
        Map<String, String> configs,
        boolean isInternal) {}

    /**
     * A page of topics, sorted by name.
     */
    public record TopicList(
        List<Topic> topics,
        String nextAfter) {}
}
