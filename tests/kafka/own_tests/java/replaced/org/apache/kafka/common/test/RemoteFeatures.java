package org.apache.kafka.common.test;

import java.util.List;

/** The features whose levels a test may choose, and that change what clients see. */
public final class RemoteFeatures {
    public static final List<String> NAMES = List.of("group.version", "transaction.version", "share.version", "streams.version", "eligible.leader.replicas.version",
        "metadata.version");

    private RemoteFeatures() { }
}
