package minibroker.control;

import java.util.List;
import java.util.Map;

/** The objects in answers of the control plane. Their fields are described in its reference, docs/control-plane.md. */
public final class Answers {
    private Answers() {}

    /** The brokers as one; the controller is null while no broker is up. */
    public record BrokerInfo(
        String name, String version, String clusterId, String bootstrapServers, Integer controller) {}

    /** "ok" or "down". */
    public record Status(String status) {}

    /** A topic; its configs are those that differ from the broker's defaults. */
    public record Topic(
        String name, String topicId, int partitions, Map<String, String> configs, boolean isInternal) {}

    /** Some topics; nextAfter goes on, and is null once all were listed. */
    public record TopicList(List<Topic> topics, String nextAfter) {}

    /** The partition and the offset that a record got. */
    public record RecordMetadata(String topic, int partition, long offset) {}

    /** The places of records that were appended; warnings is null when there are none. */
    public record ProducedRecords(List<RecordMetadata> records, List<String> warnings) {}

    /** A header of a record. */
    public record Header(String name, Object value) {}

    /** A record as a consumer would get it, and how it is stored. `Format` tells the types of keys and values. */
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

    /** Some records; nextOffsets has by partition the start that goes on, and is empty once all was read. */
    public record RecordPart(List<ConsumedRecord> records, Map<String, Long> nextOffsets) {}

    /** Some consumer groups; nextAfter goes on, and is null once all were listed. */
    public record GroupIds(List<String> groups, String nextAfter) {}

    /** The committed offset of a partition. */
    public record Committed(String topic, int partition, long offset) {}

    /** The offsets that a group is behind in a partition. */
    public record PartitionLag(String topic, int partition, long lag) {}

    /**
     * Neighboring offsets that were delivered to a share group and are in the same state, the last one included;
     * memberId is null where no member has acquired them.
     */
    public record InFlight(long firstOffset, long lastOffset, String state, int deliveryCount, String memberId) {}

    /** A partition as a share group sees it; startOffset and lag are null before the first read. */
    public record SharePartition(
        String topic, int partition, Long startOffset, Long lag, long acquired, List<InFlight> inFlight) {}

    /** The offsets that a group is behind; warnings is null when there are none. */
    public record Lag(long total, List<PartitionLag> partitions, List<String> warnings) {
        public Lag(long total, List<PartitionLag> partitions) {
            this(total, partitions, null);
        }
    }

    /** A partition of a member. */
    public record Assigned(String topic, int partition) {}

    /** A member of a group; its partitions are null while it waits, or when it is not a consumer. */
    public record Member(
        String memberId, String groupInstanceId, String clientId, String clientHost, List<Assigned> partitions) {}

    /** A group at one moment. */
    public record Group(
        String groupId,
        String type,
        String state,
        boolean isStable,
        int generation,
        String protocol,
        List<Member> members) {}

    /** A rule about who may do what. */
    public record Rule(
        String resourceType,
        String resourceName,
        String patternType,
        String principal,
        String host,
        String operation,
        String permission) {}

    /** A metric of a client. */
    public record Metric(String name, double value) {}

    /** The metrics that a client has sent at once (KIP-714). */
    public record Push(
        String clientInstanceId,
        String clientId,
        String clientHost,
        long timestamp,
        boolean isLast,
        List<Metric> metrics) {}

    /** A snapshot. */
    public record Snapshot(String name, String directory) {}

    /** One broker; its address is HOST:PORT. */
    public record Node(int nodeId, boolean isUp, String address, String rack) {
        public Node(int nodeId, boolean isUp, String address) {
            this(nodeId, isUp, address, null);
        }
    }

    /** The journal. */
    public record JournalInfo(boolean isKept, long count) {}

    /** A request and its answer, with Kafka's own field names. */
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

    /** Requests, oldest first; the count also has those that do not fit. */
    public record JournalEntries(long count, List<JournalEntry> requests) {}

    /** A fault, and how many requests it has hit; warnings is null when there are none. */
    public record InstalledFault(String id, long fired, Map<String, Object> fault, List<String> warnings) {
        public InstalledFault(String id, long fired, Map<String, Object> fault) {
            this(id, fired, fault, null);
        }
    }

    /** A fault, and the newest 1000 requests that it has hit. */
    public record FaultHits(String id, long fired, Map<String, Object> fault, List<JournalEntry> hits) {}
}
