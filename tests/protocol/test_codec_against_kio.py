"""The codec against kio, an independent implementation generated from Kafka's own message definitions.

kio follows Kafka 4, which has dropped some old versions: those are held against golden bytes in `test_codec.py`. It
does not have the records of the coordinators: see `test_coordinator_records.py`.
"""

import importlib
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import kio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from minibroker.cluster.routing.routes import ROUTES
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.coordinator_records.consumer_groups import CONSUMER_GROUP_RECORDS
from minibroker_protocol.coordinator_records.share_group_state import SHARE_STATE_RECORDS
from minibroker_protocol.coordinator_records.share_groups import SHARE_GROUP_RECORDS
from minibroker_protocol.coordinator_records.streams_groups import STREAMS_GROUP_RECORDS
from minibroker_protocol.schema import schema_of
from tests.protocol.message_strategies import all_messages, few_at_a_time, message_class, messages
from tests.sweeps import few_examples

KIO: Final = Path(kio.__file__).parent

_RECORDS: Final = (*CONSUMER_GROUP_RECORDS, *SHARE_GROUP_RECORDS, *STREAMS_GROUP_RECORDS, *SHARE_STATE_RECORDS)


def kio_module(cls: type[Any], version: int) -> str:
    """The name of kio's module with the same message, if it has one."""
    named = re.fullmatch(r"(\w+?)(Request|Response)", cls.__name__)
    name, kind = named.groups() if named else (cls.__name__, "data")
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return f"kio.schema.{package}.v{version}.{kind.lower()}"


def is_known_to_kio(cls: type[Any], version: int) -> bool:
    """False for a version that Kafka 4 has dropped, and for records of coordinators.

    It looks for the module's file: to import hundreds of them takes seconds, in each process that collects the tests.
    """
    return KIO.parent.joinpath(*kio_module(cls, version).split(".")).with_suffix(".py").exists()


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
KNOWN_TO_BOTH = [pair for pair in all_messages() if is_known_to_kio(*pair)]


@pytest.mark.parametrize(("cls", "versions"), few_at_a_time(KNOWN_TO_BOTH))
@few_examples
@given(data=st.data())
def test_kio_reads_what_we_write_and_writes_the_same_bytes(
    cls: type[Any], versions: list[int], data: st.DataObject
) -> None:
    for version in versions:
        holds_for_kio(data.draw(messages(cls, version), f"version {version}"), version)


def holds_for_kio(value: Any, version: int) -> None:
    """Hold the bytes of a message against those of kio. AssertionError."""
    cls = type(value)
    ours = bytearray()
    encode(value, version, ours, [])
    theirs: type[Any] = getattr(importlib.import_module(kio_module(cls, version)), cls.__name__)
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
        *((key.__name__, schema_of(key).versions.first) for key, _ in _RECORDS),
        *((value.__name__, 0) for _, value in _RECORDS),
    }


def test_the_served_versions_are_declared() -> None:
    for route in ROUTES:
        for kind in ("Request", "Response"):
            declared = schema_of(message_class(route, kind)).versions
            assert route.first in declared
            assert route.last in declared
