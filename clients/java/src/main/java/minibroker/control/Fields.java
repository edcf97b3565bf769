package minibroker.control;

import java.util.LinkedHashMap;
import java.util.Map;

/** The fields of a request under their names in docs/control-plane.md. The broker chooses fields that are not set. */
abstract class Fields<T extends Fields<T>> {
    final Map<String, Object> map = new LinkedHashMap<>();

    @SuppressWarnings("unchecked")
    final T set(String name, Object value) {
        map.put(name, value);
        return (T) this;
    }
}
