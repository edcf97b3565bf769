"""Keys of no particular part of the broker: plug-ins, work in the background, starting and stopping."""

from minibroker.config.keys import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    NOT_NEGATIVE,
    POSITIVE,
    REPORTED,
    ConfigKey,
)
from minibroker.config.reported_keys.marks import internal, of_kafka_3, of_kafka_4

# fmt: off
KEYS = (
    ConfigKey("alter.config.policy.class.name", CLASS, None, None, LOW, REPORTED,
              "A Java class that may refuse changes of configuration; there is no JVM here to run it."),
    ConfigKey("background.threads", INT, 10, POSITIVE, HIGH, REPORTED,
              "Threads for chores in the background."),
    ConfigKey("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, REPORTED,
              "Whether a broker hands over its partitions before it stops; here it always does."),
    ConfigKey("create.topic.policy.class.name", CLASS, None, None, LOW, REPORTED,
              "A Java class that may refuse new topics; there is no JVM here to run it."),
    ConfigKey("request.timeout.ms", INT, 30_000, None, HIGH, REPORTED,
              "How long the broker waits for an answer to its own requests."),
    *internal(
        ConfigKey("server.max.startup.time.ms", LONG, LONG_MAX, NOT_NEGATIVE, MEDIUM, REPORTED,
                  "How long the broker may take to start before it gives up; for tests of Kafka."),
        ConfigKey("unstable.api.versions.enable", BOOLEAN, False, None, HIGH, REPORTED,
                  "Whether versions of requests are served that are still being designed."),
        ConfigKey("unstable.feature.versions.enable", BOOLEAN, False, None, HIGH, REPORTED,
                  "Whether levels of features may be set that are still being designed."),
    ),
    *of_kafka_3(
        ConfigKey("broker.id.generation.enable", BOOLEAN, True, None, MEDIUM, REPORTED,
                  "Whether a broker without a number gets one from ZooKeeper; here it is 1."),
        ConfigKey("controlled.shutdown.max.retries", INT, 3, None, MEDIUM, REPORTED,
                  "How often a broker that stops tries to hand over its partitions."),
        ConfigKey("controlled.shutdown.retry.backoff.ms", LONG, 5_000, None, MEDIUM, REPORTED,
                  "How long a broker that stops waits between those attempts."),
        ConfigKey("reserved.broker.max.id", INT, 1000, NOT_NEGATIVE, MEDIUM, REPORTED,
                  "The highest number of a broker that ZooKeeper does not give out."),
    ),
    *of_kafka_4(
        ConfigKey("config.providers", LIST, [], None, LOW, REPORTED,
                  "Names of Java classes that look up values elsewhere; a ${...} in a value is taken as it stands."),
    ),
)
# fmt: on
