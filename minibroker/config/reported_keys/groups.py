"""The group coordinator: its work on groups of all kinds, its topic, and groups of the consumer protocol."""

from minibroker.config.keys import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    MEDIUM,
    MIB,
    POSITIVE,
    REPORTED,
    ConfigKey,
    Range,
)
from minibroker.config.reported_keys.marks import internal, of_kafka_3, of_kafka_4

# fmt: off
KEYS = (
    ConfigKey("group.coordinator.append.linger.ms", INT, 10, Range(-1), MEDIUM, REPORTED,
              "How long the coordinator gathers what it writes; Kafka 4 has -1 for as long as seems best."),
    ConfigKey("group.coordinator.threads", INT, 1, POSITIVE, MEDIUM, REPORTED,
              "Threads of the coordinator; Kafka 4 has 4."),
    ConfigKey("offsets.commit.timeout.ms", INT, 5_000, POSITIVE, HIGH, REPORTED,
              "How long a commit waits for the replicas of the offsets topic."),
    ConfigKey("offsets.load.buffer.size", INT, 5 * MIB, POSITIVE, HIGH, REPORTED,
              "How much of the offsets topic is read at a time while a coordinator loads."),
    *internal(*of_kafka_3(
        ConfigKey("group.coordinator.new.enable", BOOLEAN, False, None, MEDIUM, REPORTED,
                  "Whether the coordinator that knows the consumer protocol is used; here there is only one."),
    )),
    *of_kafka_4(
        ConfigKey("group.coordinator.background.threads", INT, 2, POSITIVE, HIGH, REPORTED,
                  "Threads of the coordinator for regular expressions and assignments."),
        ConfigKey("group.coordinator.cached.buffer.max.bytes", INT, 1_048_588, Range(512 * 1024), MEDIUM, REPORTED,
                  "The largest buffer that the coordinator keeps to use it again."),
        ConfigKey("group.streams.topology.description.plugin.class", CLASS, None, None, MEDIUM, REPORTED,
                  "The Java class that keeps descriptions of topologies (KIP-1331)."),
        *internal(
            ConfigKey("group.consumer.regex.refresh.interval.ms", INT, 600_000, Range(10_000), MEDIUM, REPORTED,
                      "How often the coordinator looks which topics match the expressions of a group."),
        ),
    ),
)
# fmt: on
