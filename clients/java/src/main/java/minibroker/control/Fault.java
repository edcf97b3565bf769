package minibroker.control;

/** A fault: which requests it hits, how often, and what happens to them. docs/faults.md describes each field. */
public final class Fault extends Fields<Fault> {
    /** The API: Produce, PRODUCE or *Group*. */
    public Fault api(String api) {
        return set("api", api);
    }

    /** The API's versions: 7, 0-3 or 9+. */
    public Fault versions(String versions) {
        return set("versions", versions);
    }

    /** The id of the broker that is asked. */
    public Fault node(int node) {
        return set("node", node);
    }

    /** The client id; wildcards are * and ?. */
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

    /** Only the nth request that matches. */
    public Fault nth(int nth) {
        return set("nth", nth);
    }

    /** Lets so many requests that match go by first. */
    public Fault after(int after) {
        return set("after", after);
    }

    /** At most so often. */
    public Fault times(int times) {
        return set("times", times);
    }

    /** The chance of each request that matches. */
    public Fault probability(double probability) {
        return set("probability", probability);
    }

    /** Makes the chances come out alike every time. */
    public Fault seed(long seed) {
        return set("seed", seed);
    }

    /** The name of the error that is the answer. */
    public Fault error(String error) {
        return set("error", error);
    }

    /** There is no answer; the request is lost "before" or "after" it was applied. */
    public Fault drop(String drop) {
        return set("drop", drop);
    }

    /** The connection is closed "before" or "after" the request was applied. */
    public Fault disconnect(String disconnect) {
        return set("disconnect", disconnect);
    }

    /** The connection stays open, and nothing on it is applied or answered any more. */
    public Fault blackHole() {
        return set("black_hole", true);
    }

    /** So many bytes of the answer are sent; then the connection is closed. */
    public Fault truncate(int truncate) {
        return set("truncate", truncate);
    }

    /** The answer has wrong bytes: records, body, correlation_id or length. */
    public Fault corrupt(String corrupt) {
        return set("corrupt", corrupt);
    }

    /** Metadata is answered as it was so many changes ago. */
    public Fault staleMetadata(int staleMetadata) {
        return set("stale_metadata", staleMetadata);
    }

    /** The answer is late by so much. */
    public Fault delayMs(double delayMs) {
        return set("delay_ms", delayMs);
    }

    /** The answer tells the client to wait so long. */
    public Fault throttleMs(int throttleMs) {
        return set("throttle_ms", throttleMs);
    }
}
