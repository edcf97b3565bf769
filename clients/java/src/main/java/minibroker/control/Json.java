package minibroker.control;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Converts JSON to maps, lists, strings, longs, doubles, booleans and null, and maps to records.
 *
 * <p>A JSON library could conflict with other versions of it on the class path of a test.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Parses a text. Throws IllegalArgumentException if it is not JSON. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        if (json.next() != 0) {
            throw json.malformed();
        }
        return value;
    }

    /** Returns a value as text. Throws IllegalArgumentException for a type that JSON does not have. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(before);
                quote(entry.getKey().toString(), out);
                out.append(':');
                write(entry.getValue(), out);
                before = ',';
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> values) {
            out.append('[');
            String before = "";
            for (Object each : values) {
                out.append(before);
                write(each, out);
                before = ",";
            }
            out.append(']');
        } else if (value instanceof CharSequence || value instanceof Character) {
            quote(value.toString(), out);
        } else if (value instanceof Number number) {
            if (number instanceof Double || number instanceof Float) {
                // A number that is not finite throws NumberFormatException, an IllegalArgumentException.
                new BigDecimal(number.toString());
            }
            out.append(number);
        } else if (value == null || value instanceof Boolean) {
            out.append(value);
        } else {
            throw new IllegalArgumentException(
                "minibroker: " + value.getClass().getName() + " is not JSON: give a Map, a List, a String, a number, "
                    + "a boolean or null; a key or a value may also be byte[]");
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ') {
                out.append(String.format("\\u%04x", (int) each));
            } else {
                out.append(each);
            }
        }
        out.append('"');
    }

    /** Converts a parsed value to a type: a record, a list, a map, a number, a String, a boolean or Object. */
    @SuppressWarnings("unchecked")
    static <T> T to(Type type, Object value) {
        return (T) converted(type, value);
    }

    private static Object converted(Type type, Object value) {
        if (value == null || type == Object.class) {
            return value;
        }
        if (type instanceof ParameterizedType generic) {
            Type element = generic.getActualTypeArguments()[generic.getActualTypeArguments().length - 1];
            if (generic.getRawType() == List.class) {
                List<Object> list = new ArrayList<>();
                ((List<?>) value).forEach(each -> list.add(converted(element, each)));
                return list;
            }
            Map<String, Object> map = new LinkedHashMap<>();
            ((Map<?, ?>) value).forEach((name, each) -> map.put((String) name, converted(element, each)));
            return map;
        }
        if (type == int.class || type == Integer.class) {
            return Math.toIntExact((Long) value);
        }
        if (type == double.class || type == Double.class) {
            return ((Number) value).doubleValue();
        }
        return ((Class<?>) type).isRecord() ? record((Class<?>) type, (Map<?, ?>) value) : value;
    }

    private static Object record(Class<?> type, Map<?, ?> fields) {
        RecordComponent[] components = type.getRecordComponents();
        Class<?>[] types = new Class<?>[components.length];
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            types[i] = components[i].getType();
            values[i] = converted(components[i].getGenericType(), fields.get(snakeCase(components[i].getName())));
        }
        try {
            Constructor<?> constructor = type.getDeclaredConstructor(types);
            return constructor.newInstance(values);
        } catch (InvocationTargetException error) {
            throw new IllegalArgumentException("minibroker: no " + type.getSimpleName() + ": " + fields, error);
        } catch (ReflectiveOperationException error) {
            throw new LinkageError("a record has its constructor", error);
        }
    }

    private static String snakeCase(String name) {
        return name.replaceAll("([A-Z])", "_$1").toLowerCase(java.util.Locale.ROOT);
    }

    private Object value() {
        char first = next();
        if (first == '{') {
            return object();
        }
        if (first == '[') {
            return array();
        }
        if (first == '"') {
            return string();
        }
        int start = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        switch (word) {
            case "null":
                return null;
            case "true":
                return true;
            case "false":
                return false;
            default:
                try {
                    return word.matches("-?\\d{1,18}") ? (Object) Long.valueOf(word) : Double.valueOf(word);
                } catch (NumberFormatException error) {
                    throw malformed();
                }
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> fields = new LinkedHashMap<>();
        at++;
        while (next() != '}') {
            if (!fields.isEmpty()) {
                expect(',');
            }
            if (next() != '"') {
                throw malformed();
            }
            String name = string();
            expect(':');
            fields.put(name, value());
        }
        at++;
        return fields;
    }

    private List<Object> array() {
        List<Object> values = new ArrayList<>();
        at++;
        while (next() != ']') {
            if (!values.isEmpty()) {
                expect(',');
            }
            values.add(value());
        }
        at++;
        return values;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char each = text.charAt(at);
            if (each == '"') {
                at++;
                return out.toString();
            }
            if (each != '\\') {
                out.append(each);
            } else if (++at < text.length() && text.charAt(at) == 'u' && at + 5 <= text.length()) {
                out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else if (at < text.length()) {
                int known = "bfnrt".indexOf(text.charAt(at));
                out.append(known < 0 ? text.charAt(at) : "\b\f\n\r\t".charAt(known));
            }
        }
        throw malformed();
    }

    private void expect(char sign) {
        if (next() != sign) {
            throw malformed();
        }
        at++;
    }

    /** Skips spaces and returns the next character without consuming it, or 0 at the end. */
    private char next() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private IllegalArgumentException malformed() {
        return new IllegalArgumentException("no JSON at character " + at + ": " + text);
    }
}
