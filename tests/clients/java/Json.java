import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * As much JSON as these programs speak with the tests: maps, lists, strings, longs, booleans and null.
 *
 * <p>Nothing from a jar: a JSON library would double the time that a program needs to start.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** What one line of JSON holds. IllegalArgumentException if it is none. */
    static Object parse(String line) {
        Json json = new Json(line);
        Object value = json.value();
        if (json.peek() != 0) {
            throw json.malformed();
        }
        return value;
    }

    /** The object of one line. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> parseObject(String line) {
        return (Map<String, Object>) parse(line);
    }

    /** One line for a value; what is no map, list, number, boolean or null is written as its text. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    /** Prints an event: its name, then names and values in turn. */
    static void event(String name, Object... fields) {
        Map<String, Object> event = new LinkedHashMap<>();
        event.put("event", name);
        for (int i = 0; i < fields.length; i += 2) {
            event.put((String) fields[i], fields[i + 1]);
        }
        String line = write(event);
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                writeString(String.valueOf(entry.getKey()), out);
                out.append(":");
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            int start = out.length();
            for (Object item : items) {
                out.append(out.length() == start ? "[" : ",");
                write(item, out);
            }
            out.append(out.length() == start ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            writeString(value.toString(), out);
        }
    }

    private static void writeString(String text, StringBuilder out) {
        out.append('"');
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        out.append('"');
    }

    private Object value() {
        char next = peek();
        if (next == '{') {
            return object();
        }
        if (next == '[') {
            return array();
        }
        if (next == '"') {
            return string();
        }
        int start = at;
        while (at < text.length() && "{}[],: \"".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        return switch (word) {
            case "null" -> null;
            case "true" -> true;
            case "false" -> false;
            default -> Long.valueOf(word);
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> map = new LinkedHashMap<>();
        take('{');
        while (peek() != '}') {
            peek();
            String name = string();
            take(':');
            map.put(name, value());
            if (peek() != '}') {
                take(',');
            }
        }
        take('}');
        return map;
    }

    private List<Object> array() {
        List<Object> items = new ArrayList<>();
        take('[');
        while (peek() != ']') {
            items.add(value());
            if (peek() != ']') {
                take(',');
            }
        }
        take(']');
        return items;
    }

    private String string() {
        take('"');
        StringBuilder out = new StringBuilder();
        while (true) {
            char each = next();
            if (each == '"') {
                return out.toString();
            }
            if (each != '\\') {
                out.append(each);
                continue;
            }
            char escaped = next();
            int plain = "nrtbf".indexOf(escaped);
            if (escaped == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                out.append(plain < 0 ? escaped : "\n\r\t\b\f".charAt(plain));
            }
        }
    }

    /** The next character that is no space; 0 at the end. */
    private char peek() {
        while (at < text.length() && text.charAt(at) == ' ') {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private char next() {
        if (at == text.length()) {
            throw malformed();
        }
        return text.charAt(at++);
    }

    private void take(char expected) {
        if (peek() != expected) {
            throw malformed();
        }
        at++;
    }

    private IllegalArgumentException malformed() {
        return new IllegalArgumentException("no JSON at " + at + ": " + text);
    }
}
