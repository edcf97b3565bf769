"""Limits of hostile requests: they must not shut the others out or fill the disk, or the rounds would show nothing.

All of it is what Kafka lets clients do, too.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey

_MOST_PARTITIONS: Final = 20
_REFUSED_PARTITIONS: Final = 10_001
_NAMES: Final = 30
_BROKER_KEYS: Final = ("log.retention.ms", "message.max.bytes", "log.cleaner.threads", "no.such.key")
_TOPIC: Final = 2
_ENDING: Final = (ApiKey.CONTROLLED_SHUTDOWN, ApiKey.UNREGISTER_BROKER)
_BROKERS: Final = range(4)
_BODY_AT: Final = 8
"""Behind API key, version and correlation id."""


def tame(request: Any, rng: random.Random) -> None:
    """Change a request in its place."""
    change = _CHANGES.get(type(request).__name__)
    if change is not None:
        change(request, rng)


def _few_partitions(request: Any, rng: random.Random) -> None:
    request.topics = request.topics[:_NAMES]
    for topic in request.topics:
        field = "count" if hasattr(topic, "count") else "num_partitions"
        if getattr(topic, field) not in range(-1, _MOST_PARTITIONS):
            setattr(topic, field, rng.choice([_MOST_PARTITIONS, 2**31 - 1, -(2**31), _REFUSED_PARTITIONS * 10]))
        if topic.assignments:
            topic.assignments = topic.assignments[:_MOST_PARTITIONS]


def _few_created(request: Any, _: random.Random) -> None:
    if request.topics and request.allow_auto_topic_creation:
        request.topics = request.topics[:_NAMES]


def _wide_limits(request: Any, rng: random.Random) -> None:
    """Low ones only for clients that the probe is none of."""
    for entry in request.entries:
        is_apart = all(each.entity_name not in {None, "127.0.0.1", "ANONYMOUS"} for each in entry.entity)
        for operation in entry.ops:
            if not is_apart and not operation.remove and 0 < operation.value < 1e9:
                operation.value = rng.choice([1e9, 1e308])


def _harmless_keys(request: Any, rng: random.Random) -> None:
    for resource in request.resources:
        if resource.resource_type == _TOPIC:
            if resource.resource_name == "checked":
                resource.resource_name = "fuzz-a"
            continue
        for config in resource.configs or ():
            config.name = rng.choice(_BROKER_KEYS)
            if config.name == "message.max.bytes":
                config.value = "1000000"


def _up(request: Any, _: random.Random) -> None:
    """A broker ends when it is asked to."""
    request.broker_id = 99


def may_end_a_broker(frame: bytes) -> bool:
    """Whether a frame (without its length) in which bytes were changed may tell a broker that is up to go."""
    if int.from_bytes(frame[:2], "big") not in _ENDING:
        return False
    body = frame[_BODY_AT:]
    return any(number.to_bytes(4, "big") in body for number in _BROKERS)


_CHANGES: Final[dict[str, Callable[[Any, random.Random], None]]] = {
    "CreateTopicsRequest": _few_partitions,
    "CreatePartitionsRequest": _few_partitions,
    "MetadataRequest": _few_created,
    "AlterClientQuotasRequest": _wide_limits,
    "AlterConfigsRequest": _harmless_keys,
    "IncrementalAlterConfigsRequest": _harmless_keys,
    "ControlledShutdownRequest": _up,
    "UnregisterBrokerRequest": _up,
}
