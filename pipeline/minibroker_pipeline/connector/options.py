"""Options of Spark's Kafka connector: topics and positions to read, as `format("kafka")` takes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

Isolation = Literal["read_committed", "read_uncommitted"]
Position = str | datetime | Mapping[str, Mapping[int, int]] | Mapping[str, Mapping[int, datetime]]
"""Where reading begins or ends.

"earliest" or "latest"; an instant for all partitions; or per topic and partition an offset (`EARLIEST` and `LATEST`
stand for themselves) or an instant. All partitions that are read must be named then. An instant stands for the first
record of at least that timestamp.
"""
EARLIEST: Final = -2
LATEST: Final = -1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, kw_only=True)
class TopicSource:
    """Which records are read. The rows are the connector's: key, value, topic, partition, offset, timestamp, ...

    Attributes:
        bootstrap: "host:port", several with commas.
        topics: a name, several, or the partitions of each.
        pattern: instead, a Java regular expression that names of topics match; a stream finds new ones.
        starting: of a stream only until it has a checkpoint.
        ending: of a batch. A stream has no end.
        isolation: with "read_committed" records of aborted transactions are left out, and those of open ones wait.
        headers: whether there is a column `headers`, null where a record has none.
        max_offsets_per_trigger: about as many offsets make one micro-batch; None is no limit.
        options: of the connector, and with "kafka." before them of Kafka's consumer. They win.
    """

    bootstrap: str
    topics: str | Sequence[str] | Mapping[str, Sequence[int]] = ()
    pattern: str | None = None
    starting: Position = "earliest"
    ending: Position = "latest"
    isolation: Isolation = "read_committed"
    headers: bool = False
    max_offsets_per_trigger: int | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def reader_options(self, *, is_stream: bool) -> dict[str, str]:
        """The connector's options. ValueError for positions and topics that make no sense."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "kafka.isolation.level": self.isolation}
        options |= _subscription(self.topics, self.pattern)
        options |= _position("starting", self.starting)
        if not is_stream:
            options |= _position("ending", self.ending)
        elif self.ending != "latest":
            raise ValueError(f"ending: a stream has no end, so it cannot be {self.ending!r}; read a batch")
        if self.headers:
            options["includeHeaders"] = "true"
        if is_stream and self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        return options | dict(self.options)


def _subscription(topics: str | Sequence[str] | Mapping[str, Sequence[int]], pattern: str | None) -> Mapping[str, str]:
    if pattern is not None:
        if topics:
            raise ValueError("topics and pattern: one of them, not both")
        return {"subscribePattern": pattern}
    if not topics:
        raise ValueError("topics: name at least one, or give a pattern")
    if isinstance(topics, Mapping):
        return {"assign": json.dumps({topic: list(partitions) for topic, partitions in topics.items()})}
    return {"subscribe": topics if isinstance(topics, str) else ",".join(topics)}


def _position(which: Literal["starting", "ending"], position: Position) -> Mapping[str, str]:
    if isinstance(position, str):
        if position not in {"earliest", "latest"}:
            raise ValueError(f"{which}: {position!r} is neither earliest nor latest")
        return {f"{which}Offsets": position}
    if isinstance(position, datetime):
        return {f"{which}Timestamp": str(_milliseconds(which, position))}
    offsets: dict[str, dict[str, int]] = {}
    instants: dict[str, dict[str, int]] = {}
    for topic, partitions in position.items():
        for partition, at in partitions.items():
            if isinstance(at, datetime):
                instants.setdefault(topic, {})[str(partition)] = _milliseconds(which, at)
            else:
                offsets.setdefault(topic, {})[str(partition)] = at
    if offsets and instants:
        raise ValueError(f"{which}: offsets or instants, not some of both")
    if instants:
        return {f"{which}OffsetsByTimestamp": json.dumps(instants)}
    return {f"{which}Offsets": json.dumps(offsets)}


def _milliseconds(which: str, instant: datetime) -> int:
    if instant.tzinfo is None:
        raise ValueError(f"{which}: {instant} has no time zone")
    return (instant - _EPOCH) // _MILLISECOND
