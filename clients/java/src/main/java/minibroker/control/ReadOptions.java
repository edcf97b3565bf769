package minibroker.control;

import java.util.Locale;

/** A selection of a topic's records. By default, committed records of all partitions from offset 0, as text. */
public final class ReadOptions extends Fields<ReadOptions> {
    public ReadOptions partition(int partition) {
        return set("partition", partition);
    }

    /** Sets the first offset to read. */
    public ReadOptions start(long offset) {
        return set("start", offset);
    }

    /** Includes records of open and aborted transactions. */
    public ReadOptions uncommitted() {
        return set("isolation", "read_uncommitted");
    }

    public ReadOptions limit(int limit) {
        return set("limit", limit);
    }

    public ReadOptions format(Format format) {
        return set("format", format.name().toLowerCase(Locale.ROOT));
    }
}
