package minibroker.control;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A record that is expected, waited for, or must not exist. A field that is not set matches anything, and null matches
 * null. JSON objects are compared by the given members only.
 */
public final class Expected extends Fields<Expected> {
    private final Map<String, Object> headers = new LinkedHashMap<>();

    private Expected() {}

    /** Any record. */
    public static Expected any() {
        return new Expected();
    }

    public static Expected ofKey(Object key) {
        return any().key(key);
    }

    public static Expected ofValue(Object value) {
        return any().value(value);
    }

    public Expected key(Object key) {
        return set("key", Format.payload(key));
    }

    public Expected value(Object value) {
        return set("value", Format.payload(value));
    }

    public Expected header(String name, Object value) {
        headers.put(name, Format.payload(value));
        return set("headers", headers);
    }

    public Expected partition(int partition) {
        return set("partition", partition);
    }

    /** The offset, only for waitForRecords. */
    public Expected offset(long offset) {
        return set("offset", offset);
    }

    /** The timestamp in milliseconds since the epoch, only for waitForRecords. */
    public Expected timestamp(long timestamp) {
        return set("timestamp", timestamp);
    }
}
