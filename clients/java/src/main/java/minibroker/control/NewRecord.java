package minibroker.control;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A record to be written. Of key, value and headers a String stands for its UTF-8, byte[] for itself, and a Map, List,
 * number or boolean for its JSON.
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

    /** ms since the epoch. */
    public NewRecord timestamp(long timestamp) {
        return set("timestamp", timestamp);
    }

    public NewRecord partition(int partition) {
        return set("partition", partition);
    }
}
