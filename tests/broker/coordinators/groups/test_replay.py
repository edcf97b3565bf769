"""The replay of any records in `__consumer_offsets`, compared with Kafka's behavior."""

import struct

import pytest

from minibroker.cluster.routing.slices import drain, steps_of
from minibroker.coordinators.groups.replay import Replay
from minibroker_protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_versioned,
)
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord

TIME = 1_700_000_000_000
COMMIT, ABORT = 1, 0


def key(topic: str = "t", partition: int = 0, *, version: int = 1) -> bytes:
    return encode_versioned(OffsetCommitKey(group="g", topic=topic, partition=partition), version)


def value(offset: int, *, version: int = 3) -> bytes:
    return encode_versioned(OffsetCommitValue(offset=offset, metadata="", commit_timestamp=TIME), version)


def group_value(generation: int = 1, *, version: int = 3) -> bytes:
    metadata = GroupMetadataValue(
        protocol_type="consumer", generation=generation, protocol=None, leader=None, members=[]
    )
    return encode_versioned(metadata, version)


GROUP_KEY = encode_versioned(GroupMetadataKey(group="g"), 2)


class Partition:
    """A partition written record by record."""

    def __init__(self) -> None:
        self.log = bytearray()
        self.end = 0

    def add(self, record_key: bytes | None, record_value: bytes | None, producer_id: int = -1) -> None:
        """Append a batch with one record. With a producer id, it is part of that producer's transaction."""
        transactional = producer_id >= 0
        self.log += build_batch(
            [NewRecord(record_key, record_value, TIME)],
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0 if transactional else -1,
            is_transactional=transactional,
        )
        self.end += 1

    def mark(self, producer_id: int, marker: int) -> None:
        """Append a transaction marker."""
        self.log += build_batch(
            [NewRecord(struct.pack(">hh", 0, marker), struct.pack(">hi", 0, 0), TIME)],
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        self.end += 1

    def replayed(self) -> Replay:
        """Return the finished replay of the partition."""
        replay = Replay("__consumer_offsets-0")
        replay.read(iter_batches(self.log))
        drain(steps_of(replay.finish()))
        return replay

    def committed(self) -> dict[tuple[str, int], int]:
        """Return the committed offsets of group "g" after the replay."""
        _, offsets = self.replayed().groups.get("g", (None, None))
        return {} if offsets is None else {key: offset.offset for key in offsets if (offset := offsets.get(*key))}


@pytest.fixture
def partition() -> Partition:
    """Return a partition without records."""
    return Partition()


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_an_offset_is_read(partition: Partition, version: int) -> None:
    partition.add(key(version=min(version, 1)), value(7, version=version))
    assert partition.committed() == {("t", 0): 7}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_a_group_is_read(partition: Partition, version: int) -> None:
    partition.add(GROUP_KEY, group_value(5, version=version))
    metadata, offsets = partition.replayed().groups["g"]
    assert metadata is not None
    assert (metadata.generation, bool(offsets)) == (5, False)


def test_the_last_record_wins_and_a_tombstone_deletes(partition: Partition) -> None:
    partition.add(key(), value(1))
    partition.add(key("u"), value(2))
    partition.add(key(), value(3))
    partition.add(key("u"), None)
    partition.add(GROUP_KEY, group_value())
    partition.add(GROUP_KEY, None)
    assert partition.committed() == {("t", 0): 3}
    assert partition.replayed().groups["g"][0] is None


def test_the_later_offset_wins_even_if_the_key_versions_differ(partition: Partition) -> None:
    partition.add(key(version=0), value(1))
    partition.add(key(version=1), value(2))
    partition.add(key(version=0), value(3))
    assert partition.committed() == {("t", 0): 3}


def test_a_transaction_counts_when_it_is_committed(partition: Partition) -> None:
    partition.add(key(), value(1))
    partition.add(key(), value(2), producer_id=5)
    partition.add(key("u"), value(3), producer_id=6)
    assert partition.committed() == {("t", 0): 1}
    partition.mark(5, COMMIT)
    partition.mark(6, ABORT)
    assert partition.committed() == {("t", 0): 2}


@pytest.mark.parametrize(("later", "expected"), [(value(3), {("t", 0): 3}), (None, {})])
def test_a_later_record_wins_over_a_transaction(
    partition: Partition, later: bytes | None, expected: dict[tuple[str, int], int]
) -> None:
    partition.add(key(), value(2), producer_id=5)
    partition.add(key(), later)
    partition.mark(5, COMMIT)
    assert partition.committed() == expected


def test_offsets_of_an_open_transaction_are_pending(partition: Partition) -> None:
    partition.add(key(), value(2), producer_id=5)
    _, offsets = partition.replayed().groups["g"]
    assert offsets.is_unstable("t", 0)
    assert not offsets.is_unstable("t", 1)
    offsets.complete(5, commit=True)
    assert not offsets.is_unstable("t", 0)
    committed = offsets.get("t", 0)
    assert committed is not None
    assert committed.offset == 2


def test_deleted_offsets_are_not_pending_unless_committed_again(partition: Partition) -> None:
    partition.add(key(), value(2), producer_id=5)
    partition.add(key("u"), value(3), producer_id=5)
    partition.add(key(), None)
    partition.add(key("u"), None)
    partition.add(key("u"), value(4), producer_id=5)
    _, offsets = partition.replayed().groups["g"]
    assert [(place, offset.offset) for place, offset in offsets.pending[5].items()] == [(("u", 0), 4)]


def test_a_marker_without_a_record_is_ignored(partition: Partition) -> None:
    partition.add(key(), value(2), producer_id=5)
    partition.mark(7, COMMIT)
    assert partition.committed() == {}


@pytest.mark.parametrize(
    ("record_key", "record_value"),
    [
        (None, b""),
        (b"", b"x"),
        (b"\x00", b"x"),
        (struct.pack(">h", 3) + b"share", b"x"),  # A key of the consumer protocol.
        (struct.pack(">h", -1), b"x"),
        (key()[:-1], value(1)),
        (key("u"), b""),
        (key("u"), value(1)[:5]),
        (key("u"), struct.pack(">h", 99) + value(1)[2:]),
        (GROUP_KEY, group_value()[:-3]),
        (GROUP_KEY, struct.pack(">h", 99)),
    ],
)
def test_an_unreadable_record_is_logged_and_skipped(
    partition: Partition, record_key: bytes | None, record_value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    partition.add(key(), value(1))
    partition.add(record_key, record_value)
    partition.add(key("v"), value(2))
    assert partition.committed() == {("t", 0): 1, ("v", 0): 2}
    (record,) = caplog.records
    assert record.getMessage().startswith("__consumer_offsets-0: ")


def test_an_unreadable_batch_is_logged_and_skipped(partition: Partition, caplog: pytest.LogCaptureFixture) -> None:
    partition.add(key(), value(1))
    damaged = len(partition.log)
    partition.add(key("u"), value(1))
    partition.log[damaged + 61] = 0x7F  # The length of the first record.
    partition.add(key("v"), value(2))
    assert partition.committed() == {("t", 0): 1, ("v", 0): 2}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_older_formats_are_read(partition: Partition, magic: int) -> None:
    partition.log += build_message_set([NewRecord(key(), value(7), TIME)], magic=magic)
    assert partition.committed() == {("t", 0): 7}
