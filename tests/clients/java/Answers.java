import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.apache.kafka.common.KafkaException;

/**
 * What a broker answered, one line of JSON for each step, in words that are the same on every broker.
 *
 * <p>Names of topics, groups and transactional ids begin with a prefix of the run, which is left out; producer ids are
 * counted in the order in which they appear. An exception is told by its class.
 */
final class Answers {
    private final String prefix;
    private final Map<Long, String> producers = new HashMap<>();

    Answers(String prefix) {
        this.prefix = prefix;
    }

    /** Prints what the question brought, or the exception that it ended with. */
    void note(String step, Callable<?> question) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("step", step);
        try {
            line.put("answer", question.call());
        } catch (Exception failure) {
            line.put("error", nameOf(failure));
        }
        System.out.println(Json.write(line).replace(prefix, ""));
        System.out.flush();
    }

    /** The class of an exception, or of the one that a future or a client wraps. */
    static String nameOf(Throwable failure) {
        boolean wraps = failure instanceof ExecutionException || failure.getClass() == KafkaException.class;
        return wraps && failure.getCause() != null ? nameOf(failure.getCause()) : failure.getClass().getSimpleName();
    }

    /** A name for a producer id. */
    String producer(long id) {
        return producers.computeIfAbsent(id, unseen -> "producer " + (producers.size() + 1));
    }

    /** An object of names and values in turn. */
    static Map<String, Object> object(Object... fields) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < fields.length; i += 2) {
            object.put((String) fields[i], fields[i + 1]);
        }
        return object;
    }

    /** The items in the order of their text. */
    static <T> List<T> sorted(Collection<T> items) {
        List<T> sorted = new ArrayList<>(items);
        sorted.sort((one, other) -> one.toString().compareTo(other.toString()));
        return sorted;
    }

    /** What becomes of each item, in the order of the items' text. */
    static <T> List<Object> each(Collection<T> items, Function<T, Object> function) {
        List<Object> results = new ArrayList<>();
        sorted(items).forEach(item -> results.add(function.apply(item)));
        return results;
    }
}
