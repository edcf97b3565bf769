"""The codec against kio, an independent implementation generated from Kafka's own message definitions.

kio follows Kafka 4, which has dropped some old versions: those are held against golden bytes in `test_codec.py`. It
does not have the records of the coordinators: see `test_coordinator_records.py`.
"""

import importlib
import io
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from minibroker.routing.routes import ROUTES
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.coordinator_records.consumer_groups import CONSUMER_GROUP_RECORDS
from minibroker_protocol.schema import schema_of
from tests.protocol.message_strategies import all_messages, message_class, messages
from tests.samples import examples


def kio_class(cls: type[Any], version: int) -> type[Any] | None:
    """Kio's class for the same message, or None: a version that Kafka 4 has dropped, or a record of a coordinator."""
    named = re.fullmatch(r"(\w+?)(Request|Response)", cls.__name__)
    name, kind = named.groups() if named else (cls.__name__, "data")
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    try:
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}")
    except ModuleNotFoundError:
        return None
    found: type[Any] = getattr(module, cls.__name__)
    return found


DROPPED_BY_KAFKA_4: dict[str, Iterable[int]] = {
    "Produce": range(3),
    "Fetch": range(4),
    "LeaderAndIsr": range(8),
    "StopReplica": range(5),
    "UpdateMetadata": range(9),
    "ControlledShutdown": range(4),
    "AlterPartition": range(2),
    **dict.fromkeys(("CreateTopics", "OffsetCommit", "OffsetForLeaderEpoch"), range(2)),
    **dict.fromkeys(
        (
            "AlterReplicaLogDirs",
            "CreateAcls",
            "CreateDelegationToken",
            "DeleteAcls",
            "DeleteTopics",
            "DescribeAcls",
            "DescribeConfigs",
            "DescribeDelegationToken",
            "DescribeLogDirs",
            "ExpireDelegationToken",
            "ListOffsets",
            "OffsetFetch",
            "RenewDelegationToken",
            "WriteTxnMarkers",
        ),
        range(1),
    ),
}
NEWER_THAN_KIO: dict[str, Iterable[int]] = {
    "ApiVersions": [5],
    "DeleteGroups": [3],
    "StreamsGroupDescribe": [1],
    "StreamsGroupHeartbeat": [1],
    "StreamsGroupTopologyDescriptionUpdate": [0],
    "TxnOffsetCommit": [6],
    "UnregisterController": [0],
}
"""They came with Kafka 4.4, whose own classes `tests/kafka/test_messages.py` asks."""
KNOWN_TO_BOTH = [(cls, version) for cls, version in all_messages() if kio_class(cls, version) is not None]


def ids(pair: tuple[type[Any], int]) -> str:
    return f"{pair[0].__name__}-v{pair[1]}"


@pytest.mark.parametrize("pair", KNOWN_TO_BOTH, ids=ids)
@examples(whole=25, sample=4)
@given(data=st.data())
def test_kio_reads_what_we_write_and_writes_the_same_bytes(pair: tuple[type[Any], int], data: st.DataObject) -> None:
    cls, version = pair
    value = data.draw(messages(cls, version))
    ours = bytearray()
    encode(value, version, ours, [])
    theirs = kio_class(cls, version)
    assert theirs is not None
    parsed, size = entity_reader(theirs)(bytes(ours), 0)
    assert size == len(ours)
    again = io.BytesIO()
    entity_writer(theirs)(again, parsed)
    assert again.getvalue() == bytes(ours)
    assert decode(cls, memoryview(ours), version) == (value, len(ours))


def test_nearly_every_declared_version_is_known_to_kio() -> None:
    unknown = {(cls.__name__, version) for cls, version in all_messages()} - {
        (cls.__name__, version) for cls, version in KNOWN_TO_BOTH
    }
    assert unknown == {
        *(
            (name + kind, version)
            for versions in (DROPPED_BY_KAFKA_4, NEWER_THAN_KIO)
            for name, some in versions.items()
            for version in some
            for kind in ("Request", "Response")
        ),
        *(("OffsetCommitKey", version) for version in (0, 1)),
        *(("OffsetCommitValue", version) for version in range(5)),
        ("GroupMetadataKey", 2),
        *(("GroupMetadataValue", version) for version in range(5)),
        ("TransactionLogKey", 0),
        *(("TransactionLogValue", version) for version in (0, 1)),
        *((key.__name__, schema_of(key).versions.first) for key, _ in CONSUMER_GROUP_RECORDS),
        *((value.__name__, 0) for _, value in CONSUMER_GROUP_RECORDS),
    }


def test_the_served_versions_are_declared() -> None:
    for route in ROUTES:
        for kind in ("Request", "Response"):
            declared = schema_of(message_class(route, kind)).versions
            assert route.first in declared
            assert route.last in declared
