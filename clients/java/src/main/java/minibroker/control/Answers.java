// Made by `make clients`, from the OpenAPI document (a7476522b823365e): change that.
package minibroker.control;

import java.util.List;
import java.util.Map;

/** The objects in answers of the control plane. */
public final class Answers {
    private Answers() {}

    /**
     * A partition.
     */
    public record Assigned(
        String topic,
        int partition) {}

    /**
     * The brokers as one.
     * @param bootstrapServers For a client's configuration.
     */
    public record BrokerInfo(
        String name,
        String version,
        String clusterId,
        String bootstrapServers,
        Integer controller) {}

    /**
     * The committed offset of a partition.
     */
    public record Committed(
        String topic,
        int partition,
        long offset) {}

    /**
     * A record as a consumer would get it, and how it is stored.
     * @param timestamp ms since the epoch; -1 in format v0.
     * @param timestampType `CreateTime`, `LogAppendTime`, or `NoTimestampType`.
     * @param key As `format` asks.
     * @param value As `format` asks.
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
     * A fault, and the requests that it has hit.
     * @param fired The number of requests that it has hit.
     * @param fault Its fields.
     * @param hits The newest 1000.
     */
    public record FaultHits(
        String id,
        long fired,
        Map<String, Object> fault,
        List<JournalEntry> hits) {}

    /**
     * A group at one moment.
     * @param type `classic`, `consumer`, `share` or `streams`: the protocol of its members.
     * @param state Kafka's name of the state: `Empty`, `Stable`, `Dead`, or a state on the way to `Stable`.
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
     * Some consumer groups, by id.
     */
    public record GroupIds(
        List<String> groups,
        String nextAfter) {}

    /**
     * A header of a record.
     * @param value As `format` asks.
     */
    public record Header(
        String name,
        Object value) {}

    /**
     * Neighboring offsets that were delivered to a share group and are in the same state.
     * @param lastOffset Included.
     * @param state Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`.
     * @param deliveryCount How often each of them was delivered.
     */
    public record InFlight(
        long firstOffset,
        long lastOffset,
        String state,
        int deliveryCount,
        String memberId) {}

    /**
     * A fault. The response that installs it may have warnings.
     * @param fired The number of requests that it has hit.
     * @param fault Its fields.
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
     * Requests of clients and their responses, oldest first.
     * @param count The number of requests, also of those that do not fit or are kept no longer.
     */
    public record JournalEntries(
        long count,
        List<JournalEntry> requests) {}

    /**
     * One request and its answer.
     * @param time When it came: ms since the epoch on the broker's clock.
     * @param connection Both ends, the broker's first.
     * @param node The id of the broker that was asked.
     * @param errors The errors in the response, by name.
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
        String failure) {}

    /**
     * The journal.
     * @param count The number of requests since it was begun.
     */
    public record JournalInfo(
        boolean isKept,
        long count) {}

    /**
     * The offsets that a group is behind.
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
     * One broker.
     * @param address HOST:PORT that it listens on.
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
     * The offsets that a group is behind in a partition.
     */
    public record PartitionLag(
        String topic,
        int partition,
        long lag) {}

    /**
     * Records that were appended, in their order.
     */
    public record ProducedRecords(
        List<RecordMetadata> records,
        List<String> warnings) {
        public ProducedRecords(List<RecordMetadata> records) {
            this(records, null);
        }
    }

    /**
     * The metrics that a client has sent at once.
     * @param timestamp ms since the epoch, when it came.
     * @param isLast The client has said that it is going.
     */
    public record Push(
        String clientInstanceId,
        String clientId,
        String clientHost,
        long timestamp,
        boolean isLast,
        List<Metric> metrics) {}

    /**
     * The partition and the offset that a record got.
     */
    public record RecordMetadata(
        String topic,
        int partition,
        long offset) {}

    /**
     * Some records of a topic, partition by partition.
     * @param nextOffsets By partition, the `start` that goes on; empty once all was read to the end.
     */
    public record RecordPart(
        List<ConsumedRecord> records,
        Map<String, Long> nextOffsets) {}

    /**
     * One rule.
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
     * A partition as a share group sees it (KIP-932).
     * @param acquired The offsets that members have in hand.
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
     * Some topics, by name.
     */
    public record TopicList(
        List<Topic> topics,
        String nextAfter) {}
}
