package minibroker.control;

import java.util.Map;

/** A topic to be made. */
public final class NewTopic extends Fields<NewTopic> {
    private NewTopic() {}

    /** A topic with this name. */
    public static NewTopic named(String name) {
        return new NewTopic().set("name", name);
    }

    /** A topic whose name begins so; the broker adds random digits. */
    public static NewTopic withPrefix(String prefix) {
        return new NewTopic().set("prefix", prefix);
    }

    public NewTopic partitions(int partitions) {
        return set("partitions", partitions);
    }

    public NewTopic replicationFactor(int factor) {
        return set("replication_factor", factor);
    }

    /** Under Kafka's names: retention.ms. */
    public NewTopic configs(Map<String, ?> configs) {
        return set("configs", configs);
    }
}
