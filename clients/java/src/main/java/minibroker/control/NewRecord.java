package minibroker.control;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A record to write. In key, value and headers, a String is stored as UTF-8, byte[] unchanged, and a Map, List, number
 * or boolean as JSON.
 */
public final class NewRecord extends Fields<NewRecord> {
    private final List<Object> headers = new ArrayList<>();

    private NewRecord() {}

    /** A record without a key. */
    public static NewRecord of(Object value) {
        return of(null, value);
    }

    public static NewRecord of(Object key, Object value) {
        return new NewRecord().set("key", Format.payload(key)).set("value", Format.payload(value));
    }

    public NewRecord header(String name, Object value) {
        headers.add(Arrays.asList(name, Format.payload(value)));
        return set("headers", headers);
    }

    /** Sets the timestamp in milliseconds since the epoch. */
    public NewRecord timestamp(long timestamp) {
        return set("timestamp", timestamp);
    }

    public NewRecord partition(int partition) {
        return set("partition", partition);
    }
}
