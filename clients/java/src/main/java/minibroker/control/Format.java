package minibroker.control;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;

/** The form in which keys, values and headers of records are shown. */
public enum Format {
    /** A String if the bytes are UTF-8, otherwise a map with the member base64. */
    TEXT,
    /** A map with the member base64. */
    BASE64,
    /**
     * JSON as Map, List, String, Long, Double or Boolean. Keys and values that have a schema are decoded. Bytes that are not
     * valid JSON are shown like TEXT.
     */
    JSON;

    /** Returns the bytes of a key, value or header read as TEXT or BASE64, or null for null. */
    public static byte[] bytes(Object payload) {
        if (payload == null) {
            return null;
        }
        if (payload instanceof String text) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
        if (payload instanceof Map<?, ?> map && map.get("base64") instanceof String encoded) {
            return Base64.getDecoder().decode(encoded);
        }
        throw new IllegalArgumentException("minibroker: no bytes but " + payload + ": read it as TEXT or BASE64");
    }

    static Object payload(Object value) {
        return value instanceof byte[] bytes ? Map.of("base64", Base64.getEncoder().encodeToString(bytes)) : value;
    }
}
