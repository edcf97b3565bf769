"""Groups of the streams protocol (KIP-1071). minibroker does not serve them."""

from minibroker.config.keys import INT, INT_MAX, MEDIUM, NOT_NEGATIVE, POSITIVE, REPORTED, ConfigKey
from minibroker.config.reported_keys.marks import of_kafka_4

# fmt: off
KEYS = of_kafka_4(
    ConfigKey("group.streams.assignment.interval.ms", INT, 1000, NOT_NEGATIVE, MEDIUM, REPORTED,
              "How long a streams group keeps an assignment before it gets another."),
    ConfigKey("group.streams.heartbeat.interval.ms", INT, 5_000, POSITIVE, MEDIUM, REPORTED,
              "How often members of streams groups are told to send a heartbeat."),
    ConfigKey("group.streams.initial.rebalance.delay.ms", INT, 3_000, NOT_NEGATIVE, MEDIUM, REPORTED,
              "How long the first rebalance of an empty streams group waits for more members."),
    ConfigKey("group.streams.max.assignment.interval.ms", INT, 15_000, NOT_NEGATIVE, MEDIUM, REPORTED,
              "The longest assignment interval that a streams group may be given."),
    ConfigKey("group.streams.max.heartbeat.interval.ms", INT, 15_000, POSITIVE, MEDIUM, REPORTED,
              "The longest heartbeat interval that a streams group may be given."),
    ConfigKey("group.streams.max.session.timeout.ms", INT, 60_000, POSITIVE, MEDIUM, REPORTED,
              "The longest session timeout that a streams group may be given."),
    ConfigKey("group.streams.max.size", INT, INT_MAX, POSITIVE, MEDIUM, REPORTED,
              "The most members that a streams group may have."),
    ConfigKey("group.streams.max.standby.replicas", INT, 2, NOT_NEGATIVE, MEDIUM, REPORTED,
              "The most standby replicas that a streams group may be given."),
    ConfigKey("group.streams.min.assignment.interval.ms", INT, 0, NOT_NEGATIVE, MEDIUM, REPORTED,
              "The shortest assignment interval that a streams group may be given."),
    ConfigKey("group.streams.min.heartbeat.interval.ms", INT, 5_000, POSITIVE, MEDIUM, REPORTED,
              "The shortest heartbeat interval that a streams group may be given."),
    ConfigKey("group.streams.min.session.timeout.ms", INT, 45_000, POSITIVE, MEDIUM, REPORTED,
              "The shortest session timeout that a streams group may be given."),
    ConfigKey("group.streams.num.standby.replicas", INT, 0, NOT_NEGATIVE, MEDIUM, REPORTED,
              "How many standby replicas each task of a streams group has."),
    ConfigKey("group.streams.session.timeout.ms", INT, 45_000, POSITIVE, MEDIUM, REPORTED,
              "After how long a silence a member of a streams group is dropped."),
)
# fmt: on
