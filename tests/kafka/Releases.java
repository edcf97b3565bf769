import java.io.File;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * What the brokers of releases tell in ApiVersions. Arguments: a logging library, a kind of listener (ZK_BROKER or
 * BROKER), then jars of kafka-clients, one for each release. Prints lines: jar, API key, first and last version.
 */
public class Releases {
    private final Class<?> keys;
    private final Class<?> listeners;
    private final Object listener;
    private final ClassLoader loader;

    private Releases(ClassLoader loader, String listener) throws ReflectiveOperationException {
        this.loader = loader;
        keys = loader.loadClass("org.apache.kafka.common.protocol.ApiKeys");
        Class<?> found = null;
        try {
            found = loader.loadClass("org.apache.kafka.common.message.ApiMessageType$ListenerType");
        } catch (ClassNotFoundException older) {
            // Before 2.8 there was one kind.
        }
        listeners = found;
        this.listener = found == null ? null : named(found, listener);
    }

    public static void main(String[] arguments) throws Exception {
        URL logging = new File(arguments[0]).toURI().toURL();
        for (String jar : Arrays.asList(arguments).subList(2, arguments.length)) {
            URL[] path = {new File(jar).toURI().toURL(), logging};
            try (URLClassLoader loader = new URLClassLoader(path, ClassLoader.getPlatformClassLoader())) {
                for (String row : new Releases(loader, arguments[1]).rows()) {
                    System.out.println(new File(jar).getName() + " " + row);
                }
            }
        }
    }

    private static Object named(Class<?> constants, String name) {
        for (Object each : constants.getEnumConstants()) {
            if (each.toString().equals(name)) {
                return each;
            }
        }
        throw new IllegalArgumentException(name);
    }

    private List<String> rows() throws ReflectiveOperationException {
        if (!has(keys, "oldestVersion")) {
            return rowsOfSchemas();
        }
        List<String> rows = new ArrayList<>();
        for (Object api : apis()) {
            int key = keys.getField("id").getShort(api);
            if (has(keys, "toApiVersionForApiResponse")) {
                Method told = keys.getMethod("toApiVersionForApiResponse", boolean.class, listeners);
                Optional<?> versions = (Optional<?>) told.invoke(api, false, listener);
                if (versions.isPresent()) {
                    rows.add(key + " " + number(versions.get(), "minVersion") + " " + number(versions.get(), "maxVersion"));
                }
                Optional<?> unstable = (Optional<?>) told.invoke(api, true, listener);
                if (!unstable.equals(versions)) {
                    rows.add(key + " unstable " + number(unstable.get(), "maxVersion"));
                }
            } else if (has(keys, "toApiVersion")) {
                Optional<?> versions = (Optional<?>) keys.getMethod("toApiVersion", boolean.class).invoke(api, false);
                if (versions.isPresent()) {
                    rows.add(key + " " + number(versions.get(), "minVersion") + " " + number(versions.get(), "maxVersion"));
                }
            } else {
                rows.add(key + " " + number(api, "oldestVersion") + " " + number(api, "latestVersion"));
            }
        }
        return rows;
    }

    private Collection<?> apis() throws ReflectiveOperationException {
        if (listeners != null) {
            return (Collection<?>) keys.getMethod("apisForListener", listeners).invoke(null, listener);
        }
        if (has(keys, "enabledApis")) {
            return (Collection<?>) keys.getMethod("enabledApis").invoke(null);
        }
        return Arrays.asList(keys.getEnumConstants());
    }

    /** Before 0.11 the schemas of requests stood in one array, in which retired versions are null. */
    private List<String> rowsOfSchemas() throws ReflectiveOperationException {
        Object requests = loader.loadClass("org.apache.kafka.common.protocol.Protocol").getField("REQUESTS").get(null);
        List<String> rows = new ArrayList<>();
        for (int key = 0; key < Array.getLength(requests); key++) {
            Object versions = Array.get(requests, key);
            int count = versions == null ? 0 : Array.getLength(versions);
            int first = 0;
            while (first < count && Array.get(versions, first) == null) {
                first++;
            }
            if (count > 0) {
                rows.add(key + " " + first + " " + (count - 1));
            }
        }
        return rows;
    }

    private static boolean has(Class<?> owner, String method) {
        return Arrays.stream(owner.getMethods()).anyMatch(each -> each.getName().equals(method));
    }

    private static int number(Object of, String method) throws ReflectiveOperationException {
        return ((Number) of.getClass().getMethod(method).invoke(of)).intValue();
    }
}
