"""Mutants for the compaction stage."""

from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import flipped, mapped, put, removed, shift
from tests.broker.grade.relay import Mutant, caught

_F: Final = ApiKey.FETCH
_C: Final = ApiKey.CREATE_TOPICS
_RECORDS: Final = "responses.partitions.records"


def _renumbered(message: Any, request: Any) -> None:
    """Change the offsets so that they start at the requested offset, without gaps."""
    for topic, requested_topic in zip(message.responses, request.topics, strict=False):
        for partition, requested_partition in zip(topic.partitions, requested_topic.partitions, strict=False):
            data = bytearray(partition.records or b"")
            if data and int.from_bytes(data[:8], "big") > requested_partition.fetch_offset:
                data[:8] = requested_partition.fetch_offset.to_bytes(8, "big")
                partition.records = data


def _refused_in_gaps(message: Any, request: Any) -> None:
    for topic, requested_topic in zip(message.responses, request.topics, strict=False):
        for partition, requested_partition in zip(topic.partitions, requested_topic.partitions, strict=False):
            data = bytes(partition.records or b"")
            if data and int.from_bytes(data[:8], "big") > requested_partition.fetch_offset == 1:
                put("responses.partitions.error_code", 1)(message, request)
                partition.records = b""


def _without_tombstones(records: Any) -> Any:
    """Remove batches with a single record that has a one-byte key and no value."""
    data = bytes(records or b"")
    remaining = b""
    while len(data) > 12:
        size = 12 + int.from_bytes(data[8:12], "big")
        batch, data = data[:size], data[size:]
        if b"\x02d\x01" not in batch:
            remaining += batch
    return remaining


COMPACTION: Final = caught(
    {
        "compaction/the-last-value-of-each-key-stays": [
            Mutant(
                "no compaction", _C, request=removed("topics.configs", lambda config: config.name == "cleanup.policy")
            )
        ],
        "compaction/offsets-stay-as-they-were": [
            Mutant("new offsets after a cleaning", _F, _renumbered),
            Mutant("a start that moves with a cleaning", ApiKey.LIST_OFFSETS, shift("topics.partitions.offset", 1)),
        ],
        "compaction/a-fetch-in-a-gap-starts-at-the-next-record": [Mutant("an error in a gap", _F, _refused_in_gaps)],
        "compaction/tombstones-stay-for-their-time": [
            Mutant("tombstones removed at once", _F, mapped(_RECORDS, _without_tombstones))
        ],
        "compaction/cleaned-batches-have-fitting-checksums": [
            Mutant("old checksums in cleaned batches", _F, mapped(_RECORDS, flipped(18)))
        ],
    }
)
