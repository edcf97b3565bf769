"""Logs and their directories, and requests that wait for something in them."""

from minibroker.config.keys import HIGH, INT, LIST, LONG, LOW, MEDIUM, NOT_NEGATIVE, POSITIVE, REPORTED, ConfigKey
from minibroker.config.reported_keys.marks import of_kafka_4

# fmt: off
KEYS = (
    ConfigKey("delete.records.purgatory.purge.interval.requests", INT, 1, None, MEDIUM, REPORTED,
              "How many finished DeleteRecords requests Kafka keeps in memory before it forgets them."),
    ConfigKey("fetch.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, REPORTED,
              "How many finished Fetch requests Kafka keeps in memory before it forgets them."),
    ConfigKey("log.cleaner.io.buffer.size", INT, 512 * 1024, NOT_NEGATIVE, MEDIUM, REPORTED,
              "Memory for reading and writing while cleaning, for all threads together."),
    ConfigKey("log.dir.failure.timeout.ms", LONG, 30_000, POSITIVE, LOW, REPORTED,
              "How long a broker with a failed log directory tries to inform its controller before it stops."),
    ConfigKey("num.recovery.threads.per.data.dir", INT, 1, POSITIVE, HIGH, REPORTED,
              "Threads that recover logs at the start and flush them at the end."),
    ConfigKey("num.replica.alter.log.dirs.threads", INT, None, None, HIGH, REPORTED,
              "Threads that move replicas between log directories; without it one for each directory."),
    ConfigKey("producer.purgatory.purge.interval.requests", INT, 1000, None, MEDIUM, REPORTED,
              "How many finished Produce requests Kafka keeps in memory before it forgets them."),
    *of_kafka_4(
        ConfigKey("cordoned.log.dirs", LIST, [], None, MEDIUM, REPORTED,
                  "Log directories that take no new partitions, or * for all of them (KIP-1066)."),
    ),
)
# fmt: on
