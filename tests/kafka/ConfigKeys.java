import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;

/**
 * The configuration keys of Kafka's releases, as their own ConfigDefs have them. Arguments: a folder of jars for each
 * release. Prints, separated by tabs: folder, kind of resource, key, type, default, validator, and whether the key is
 * internal and whether brokers take it at run time.
 */
public class ConfigKeys {
    private static final String[][] KINDS = {
        {"broker", "kafka.server.KafkaConfig$", "kafka.server.KafkaConfig"},
        {"topic", "org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig$", "kafka.log.LogConfig"},
        {"group", "org.apache.kafka.coordinator.group.GroupConfig"},
        {"client-metrics", "org.apache.kafka.server.metrics.ClientMetricsConfigs", "kafka.metrics.ClientMetricsConfigs"},
    };
    private static final String[] DYNAMIC = {
        "kafka.server.DynamicBrokerConfig$", "org.apache.kafka.server.config.DynamicBrokerConfig",
    };

    private final ClassLoader loader;
    private final String release;

    private ConfigKeys(ClassLoader loader, String release) {
        this.loader = loader;
        this.release = release;
    }

    public static void main(String[] folders) throws Exception {
        for (String folder : folders) {
            List<URL> path = new ArrayList<>();
            for (File jar : new File(folder).listFiles()) {
                path.add(jar.toURI().toURL());
            }
            try (URLClassLoader loader = new URLClassLoader(path.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
                Thread.currentThread().setContextClassLoader(loader);
                for (String[] kind : KINDS) {
                    new ConfigKeys(loader, new File(folder).getName()).print(kind);
                }
            }
        }
    }

    private void print(String[] kind) throws ReflectiveOperationException {
        Object definition = null;
        for (int at = 1; at < kind.length && definition == null; at++) {
            definition = definition(kind[at]);
        }
        if (definition == null) {
            return; // the release has no such resources
        }
        Set<Object> dynamic = kind[0].equals("broker") ? dynamic() : Set.of();
        for (Object key : new TreeMap<Object, Object>((Map<?, ?>) field(definition, "configKeys")).values()) {
            String name = (String) field(key, "name");
            Object value = field(key, "defaultValue");
            boolean isRequired = value != null && value.getClass() == Object.class;
            System.out.println(String.join("\t", release, kind[0], name, field(key, "type").toString(),
                isRequired ? "?" : value == null ? "-" : "=" + text(value), validator(field(key, "validator")),
                Boolean.TRUE.equals(field(key, "internalConfig")) ? "i" : "", dynamic.contains(name) ? "d" : ""));
        }
    }

    private static String validator(Object validator) throws ReflectiveOperationException {
        if (validator == null) {
            return "";
        }
        String flags = "";
        for (String flag : new String[] {"isEmptyAllowed", "isNullAllowed"}) {
            flags += Boolean.FALSE.equals(field(validator, flag)) ? " " + flag + "=false" : "";
        }
        return validator.getClass().getName().replaceAll(".*[.$]", "") + ": " + validator.toString().replace("\n", " ") + flags;
    }

    private static String text(Object value) {
        if (value instanceof Collection) {
            StringJoiner joined = new StringJoiner(",");
            ((Collection<?>) value).forEach(each -> joined.add(each.toString()));
            return joined.toString();
        }
        return value instanceof Class ? ((Class<?>) value).getName() : value.toString();
    }

    /** The ConfigDef that a class, or a module of Scala, has in a field or makes in a method. */
    private Object definition(String name) throws ReflectiveOperationException {
        Class<?> wanted = loader.loadClass("org.apache.kafka.common.config.ConfigDef");
        Class<?> owner = owner(name);
        if (owner == null) {
            return null;
        }
        Object module = module(owner);
        for (Field field : owner.getDeclaredFields()) {
            if (wanted.isAssignableFrom(field.getType()) && (module != null || Modifier.isStatic(field.getModifiers()))) {
                field.setAccessible(true);
                if (isOfTopics(field.get(module), name)) {
                    return field.get(module);
                }
            }
        }
        for (Method method : owner.getDeclaredMethods()) {
            if (wanted.isAssignableFrom(method.getReturnType()) && method.getParameterCount() == 0
                && (module != null || Modifier.isStatic(method.getModifiers()))) {
                method.setAccessible(true);
                Object made = method.invoke(module);
                if (isOfTopics(made, name)) {
                    return made;
                }
            }
        }
        return null;
    }

    /** LogConfig also has the keys with which brokers configure logs. */
    private static boolean isOfTopics(Object definition, String name) throws ReflectiveOperationException {
        return definition != null
            && (!name.contains("LogConfig") || ((Map<?, ?>) field(definition, "configKeys")).containsKey("retention.ms"));
    }

    private Set<Object> dynamic() throws ReflectiveOperationException {
        for (String name : DYNAMIC) {
            Class<?> owner = owner(name);
            if (owner == null) {
                continue;
            }
            Object module = module(owner);
            for (Method method : owner.getDeclaredMethods()) {
                if (method.getName().equalsIgnoreCase("AllDynamicConfigs") && method.getParameterCount() == 0) {
                    return set(method.invoke(module));
                }
            }
            for (Field field : owner.getDeclaredFields()) {
                if (field.getName().replace("_", "").equalsIgnoreCase("AllDynamicConfigs")) {
                    field.setAccessible(true);
                    return set(field.get(module));
                }
            }
        }
        return Set.of(); // before 1.1
    }

    private Set<Object> set(Object found) throws ReflectiveOperationException {
        if (found instanceof Collection) {
            return new HashSet<>((Collection<?>) found);
        }
        Set<Object> all = new HashSet<>();
        Class<?> type = loader.loadClass("scala.collection.Iterator");
        Object iterator = found.getClass().getMethod("iterator").invoke(found);
        while ((Boolean) type.getMethod("hasNext").invoke(iterator)) {
            all.add(type.getMethod("next").invoke(iterator));
        }
        return all;
    }

    private Class<?> owner(String name) {
        try {
            return Class.forName(name, true, loader);
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    private static Object module(Class<?> owner) throws IllegalAccessException {
        try {
            return owner.getField("MODULE$").get(null);
        } catch (NoSuchFieldException plain) {
            return null;
        }
    }

    private static Object field(Object of, String name) throws IllegalAccessException {
        for (Class<?> type = of.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(of);
            } catch (NoSuchFieldException inherited) {
                continue;
            }
        }
        return null;
    }
}
