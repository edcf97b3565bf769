"""Rules between keys that have no effect, checked once one of them is set.

The words are those of `KafkaConfig.validateValues` and of the configurations of share groups (Kafka 3.9.1).
"""

from typing import Final

from minibroker.config.broker import Rule, bounded

_WAIT: Final = "replica.fetch.wait.max.ms"
_LAG: Final = "replica.lag.time.max.ms"
_TIMEOUT: Final = "replica.socket.timeout.ms"
_BOUNDED: Final = {
    "group.share": (
        "record.lock.duration.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
    ),
}
"""The values of a group that have a key for the least and one for the most."""

RULES: Final[tuple[Rule, ...]] = (
    (
        _WAIT,
        lambda values: values[_WAIT] <= values[_TIMEOUT],
        f"{_TIMEOUT} should always be at least {_WAIT} to prevent unnecessary socket timeouts",
    ),
    (
        _WAIT,
        lambda values: values[_WAIT] <= values[_LAG],
        f"{_WAIT} should always be less than or equal to {_LAG} to prevent frequent changes in ISR",
    ),
    *(rule for group, bounds in _BOUNDED.items() for setting in bounds for rule in bounded(group, setting)),
)
