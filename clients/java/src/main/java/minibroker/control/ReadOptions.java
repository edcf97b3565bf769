package minibroker.control;

import java.util.Locale;

/** A choice of records of a topic: all partitions, from offset 0, committed records and as text unless set. */
public final class ReadOptions extends Fields<ReadOptions> {
    public ReadOptions partition(int partition) {
        return set("partition", partition);
    }

    /** The offset to begin at. */
    public ReadOptions start(long offset) {
        return set("start", offset);
    }

    /** Also records of transactions that are open or were aborted. */
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
