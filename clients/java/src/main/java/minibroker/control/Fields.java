package minibroker.control;

import java.util.LinkedHashMap;
import java.util.Map;

/** The fields of a request by their names in docs/control-plane.md; those that are not set are left to the broker. */
abstract class Fields<T extends Fields<T>> {
    final Map<String, Object> map = new LinkedHashMap<>();

    @SuppressWarnings("unchecked")
    final T set(String name, Object value) {
        map.put(name, value);
        return (T) this;
    }
}
