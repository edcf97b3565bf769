package minibroker.control;

import java.util.Map;

/** A topic to create. */
public final class NewTopic extends Fields<NewTopic> {
    private NewTopic() {}

    /** A topic with this name. */
    public static NewTopic named(String name) {
        return new NewTopic().set("name", name);
    }

    /** A topic whose name starts with this prefix, to which the broker appends random digits. */
    public static NewTopic withPrefix(String prefix) {
        return new NewTopic().set("prefix", prefix);
    }

    public NewTopic partitions(int partitions) {
        return set("partitions", partitions);
    }

    public NewTopic replicationFactor(int factor) {
        return set("replication_factor", factor);
    }

    /** Sets a configuration key, such as retention.ms. */
    public NewTopic configs(Map<String, ?> configs) {
        return set("configs", configs);
    }
}
