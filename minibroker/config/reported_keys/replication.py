"""Keys of replication, and of leadership moving between brokers. Brokers of one process share their logs."""

from minibroker.config.keys import (
    BOOLEAN,
    HIGH,
    INT,
    KAFKA_VERSIONS,
    LONG,
    MEDIUM,
    MIB,
    NOT_NEGATIVE,
    POSITIVE,
    REPORTED,
    STRING,
    ConfigKey,
)
from minibroker.config.reported_keys.marks import internal, of_kafka_3, of_kafka_4

# fmt: off
KEYS = (
    ConfigKey("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, REPORTED,
              "Whether leadership goes back to the preferred replicas by itself."),
    ConfigKey("leader.imbalance.check.interval.seconds", LONG, 300, POSITIVE, HIGH, REPORTED,
              "How often the controller looks for leaders that are not the preferred replicas."),
    ConfigKey("num.replica.fetchers", INT, 1, None, HIGH, REPORTED,
              "Threads that copy from each of the other brokers."),
    ConfigKey("replica.fetch.backoff.ms", INT, 1000, NOT_NEGATIVE, MEDIUM, REPORTED,
              "How long a follower rests after a failed fetch."),
    ConfigKey("replica.fetch.max.bytes", INT, MIB, NOT_NEGATIVE, MEDIUM, REPORTED,
              "How many bytes a follower asks for from each partition."),
    ConfigKey("replica.fetch.min.bytes", INT, 1, None, HIGH, REPORTED,
              "How many bytes have to be there before a follower's fetch is answered."),
    ConfigKey("replica.fetch.response.max.bytes", INT, 10 * MIB, NOT_NEGATIVE, MEDIUM, REPORTED,
              "How many bytes a follower asks for in one request."),
    ConfigKey("replica.fetch.wait.max.ms", INT, 500, None, HIGH, REPORTED,
              "How long a follower's fetch may wait for enough bytes."),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", LONG, 5_000, None, HIGH, REPORTED,
              "How often high watermarks are written to their file."),
    ConfigKey("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, REPORTED,
              "How long a follower may lag before it counts as out of sync."),
    ConfigKey("replica.socket.receive.buffer.bytes", INT, 64 * 1024, None, HIGH, REPORTED,
              "The receive buffer of a follower's socket."),
    ConfigKey("replica.socket.timeout.ms", INT, 30_000, None, HIGH, REPORTED,
              "How long a follower waits for the answer to a request."),
    *internal(
        ConfigKey("unclean.leader.election.interval.ms", LONG, 300_000, POSITIVE, MEDIUM, REPORTED,
                  "How often the controller looks for partitions that wait for an unclean election."),
    ),
    *of_kafka_3(
        ConfigKey("eligible.leader.replicas.enable", BOOLEAN, False, None, HIGH, REPORTED,
                  "Whether replicas are remembered that were in sync and may lead (KIP-966)."),
        ConfigKey("inter.broker.protocol.version", STRING, "3.9-IV0", KAFKA_VERSIONS, MEDIUM, REPORTED,
                  "The version of Kafka that the brokers of a cluster speak with each other."),
        ConfigKey("leader.imbalance.per.broker.percentage", INT, 10, None, HIGH, REPORTED,
                  "The share of such leaders at which the controller moves leadership, in percent."),
    ),
    *of_kafka_4(
        ConfigKey("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, MEDIUM, REPORTED,
                  "Whether an empty follower begins behind what is in remote storage."),
    ),
)
# fmt: on
