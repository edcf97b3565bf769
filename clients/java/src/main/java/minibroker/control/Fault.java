package minibroker.control;

/** A fault: its effect, the requests that it hits, and its limits. docs/faults.md describes each field. */
public final class Fault extends Fields<Fault> {
    /** The API: Produce, PRODUCE or *Group*. */
    public Fault api(String api) {
        return set("api", api);
    }

    /** The API's versions: 7, 0-3 or 9+. */
    public Fault versions(String versions) {
        return set("versions", versions);
    }

    /** The id of the broker that receives the request. */
    public Fault node(int node) {
        return set("node", node);
    }

    /** The client id, with * and ? as wildcards. */
    public Fault clientId(String clientId) {
        return set("client_id", clientId);
    }

    /** A topic that the request names. */
    public Fault topic(String topic) {
        return set("topic", topic);
    }

    /** A partition that the request names. */
    public Fault partition(int partition) {
        return set("partition", partition);
    }

    /** A group that the request names. */
    public Fault group(String group) {
        return set("group", group);
    }

    /** A transactional id that the request names. */
    public Fault transactionalId(String transactionalId) {
        return set("transactional_id", transactionalId);
    }

    /** Hits only the nth matching request. */
    public Fault nth(int nth) {
        return set("nth", nth);
    }

    /** The number of matching requests to let pass first. */
    public Fault after(int after) {
        return set("after", after);
    }

    /** The maximum number of requests to hit. */
    public Fault times(int times) {
        return set("times", times);
    }

    /** The probability of hitting a matching request. */
    public Fault probability(double probability) {
        return set("probability", probability);
    }

    /** The seed that makes the random choices repeatable. */
    public Fault seed(long seed) {
        return set("seed", seed);
    }

    /** The name of the error to return. */
    public Fault error(String error) {
        return set("error", error);
    }

    /** Applies the request although the response has an error. */
    public Fault applied() {
        return set("applied", true);
    }

    /** Sends no response. The request is lost "before" or "after" it is applied. */
    public Fault drop(String drop) {
        return set("drop", drop);
    }

    /** Closes the connection "before" or "after" the request is applied. */
    public Fault disconnect(String disconnect) {
        return set("disconnect", disconnect);
    }

    /** Closes the connection, and applies the request after this many later requests. */
    public Fault late(int late) {
        return set("late", late);
    }

    /** Keeps the connection open without applying or answering any further request. */
    public Fault blackHole() {
        return set("black_hole", true);
    }

    /** Closes the connection after this many bytes of the response. */
    public Fault truncate(int truncate) {
        return set("truncate", truncate);
    }

    /** The part of the response to damage: records, body, correlation_id or length. */
    public Fault corrupt(String corrupt) {
        return set("corrupt", corrupt);
    }

    /** The number of changes by which the Metadata response is out of date. */
    public Fault staleMetadata(int staleMetadata) {
        return set("stale_metadata", staleMetadata);
    }

    /** The largest size of the records in a response to a fetch. */
    public Fault fetchBytes(int fetchBytes) {
        return set("fetch_bytes", fetchBytes);
    }

    /** The delay of the response. */
    public Fault delayMs(double delayMs) {
        return set("delay_ms", delayMs);
    }

    /** A random time up to this, added to the delay. */
    public Fault jitterMs(double jitterMs) {
        return set("jitter_ms", jitterMs);
    }

    /** The throttle time in the response. */
    public Fault throttleMs(int throttleMs) {
        return set("throttle_ms", throttleMs);
    }

    /** The rate at which the response arrives. */
    public Fault bytesPerSecond(int bytesPerSecond) {
        return set("bytes_per_second", bytesPerSecond);
    }

    /** The size of the pieces in which the response is sent. */
    public Fault sliceBytes(int sliceBytes) {
        return set("slice_bytes", sliceBytes);
    }
}
