"""OffsetCommit, OffsetFetch and OffsetDelete, with error codes compared with Kafka 3.9.1."""

from pathlib import Path

import pytest

from minibroker_protocol.coordinator_records import OffsetCommitKey, OffsetCommitValue, decode_versioned, read_group_key
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.batch import iter_batches
from minibroker_storage.errors import LogWriteError
from minibroker_storage.log import Log
from tests.broker.coordinators.groups.offset_requests import (
    MEMBER,
    NOTHING,
    commit,
    delete,
    fetch,
    fetch_with_error,
    offsets_of,
    with_members,
)
from tests.broker.harness import Configured, Harness
from tests.broker.logs.world import log_of

VERSIONS = range(11)
T0 = ("t", 0)


def refuse(log: Log) -> None:
    raise LogWriteError("no space", log.log_end_offset)


def last_record(harness: Harness, group_id: str = "g") -> tuple[OffsetCommitKey, int, OffsetCommitValue]:
    """Return the key, the value's version and the value of the last record in the group's partition."""
    log = log_of(harness, "__consumer_offsets", harness.services.groups.store.partition_of(group_id))
    (*_, batch) = iter_batches(log.read(0, 1 << 20).read())
    (*_, record) = batch
    assert record.key is not None
    assert record.value is not None
    key = read_group_key(record.key)
    assert isinstance(key, OffsetCommitKey)
    return key, int.from_bytes(record.value[:2], "big"), decode_versioned(OffsetCommitValue, record.value)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_committed_is_fetched(harness: Harness, version: int) -> None:
    assert commit(harness, {T0: 7}, version=version, metadata="so far") == {T0: 0}
    assert fetch(harness, T0) == {T0: (7, -1, "so far", 0)}


def test_a_later_commit_counts_also_when_its_offset_is_lower(harness: Harness) -> None:
    commit(harness, {T0: 7})
    commit(harness, {T0: 3})
    assert offsets_of(harness) == {T0: 3}


def test_a_group_may_have_an_empty_name(harness: Harness) -> None:
    assert commit(harness, {T0: 7}, "") == {T0: 0}
    assert offsets_of(harness, "") == {T0: 7}


def test_metadata_may_be_as_long_as_the_configuration_says_in_javas_characters(configured: Configured) -> None:
    harness = configured({"offset.metadata.max.bytes": "4"})
    too_large = {T0: int(ErrorCode.OFFSET_METADATA_TOO_LARGE)}
    assert commit(harness, {T0: 1}, metadata="four") == {T0: 0}
    assert commit(harness, {T0: 2}, metadata="\u20ac" * 4) == {T0: 0}
    assert commit(harness, {T0: 3}, metadata="\U0001f600" * 2) == {T0: 0}
    assert commit(harness, {T0: 4}, metadata="fives") == too_large
    assert commit(harness, {T0: 5}, metadata="\U0001f600" * 3) == too_large
    assert offsets_of(harness) == {T0: 3}


def test_a_commit_that_no_batch_can_hold_is_refused_as_a_whole(harness: Harness) -> None:
    harness.create("wide", 300)
    offsets = {("wide", index): index for index in range(300)}
    codes = commit(harness, offsets, metadata="x" * 4096)
    assert set(codes.values()) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert fetch(harness) == {}


def test_a_generation_of_a_group_that_is_not_there_is_refused_as_by_kafka_4(harness: Harness) -> None:
    for version in (8, 9):
        codes = commit(harness, {T0: 1}, generation_id_or_member_epoch=1, member_id="m", version=version)
        assert codes == {T0: ErrorCode.ILLEGAL_GENERATION if version == 8 else ErrorCode.GROUP_ID_NOT_FOUND}
    assert harness.services.groups.store.get("g") is None


def test_a_member_commits_in_its_generation_only(harness: Harness) -> None:
    with_members(harness)
    assert commit(harness, {T0: 1}, **MEMBER) == {T0: 0}
    assert commit(harness, {T0: 2}, member_id="m", generation_id_or_member_epoch=2) == {
        T0: ErrorCode.ILLEGAL_GENERATION
    }
    assert commit(harness, {T0: 2}, member_id="x", generation_id_or_member_epoch=3) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(harness, {T0: 2}, **MEMBER, group_instance_id="i") == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert offsets_of(harness) == {T0: 1}


def test_the_record_is_what_kafka_writes(harness: Harness) -> None:
    commit(harness, {T0: 7}, metadata="m", each_committed_leader_epoch=2)
    key, version, value = last_record(harness)
    assert (key.group, key.topic, key.partition, version) == ("g", "t", 0, 3)
    assert value == OffsetCommitValue(
        offset=7, leader_epoch=2, metadata="m", commit_timestamp=harness.clock.now_ms(), expire_timestamp=-1
    )


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_retention_of_its_own_is_in_the_record(harness: Harness, version: int) -> None:
    commit(harness, {T0: 7}, version=version, retention_time_ms=5000)
    _, written, value = last_record(harness)
    assert (written, value.expire_timestamp) == (1, harness.clock.now_ms() + 5000)


def test_the_longest_retention_ends_at_the_last_moment_there_is(harness: Harness) -> None:
    assert commit(harness, {T0: 7}, version=3, retention_time_ms=2**63 - 1) == {T0: 0}
    assert last_record(harness)[2].expire_timestamp == 2**63 - 1


def test_offsets_are_not_committed_when_the_disk_refuses(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(harness, {T0: 7})
    with monkeypatch.context() as patched:
        patched.setattr(Log, "commit", refuse)
        assert commit(harness, {T0: 8}) == {T0: ErrorCode.NOT_COORDINATOR}
    assert offsets_of(harness) == {T0: 7}


@pytest.fixture
def unreadable(harness: Harness) -> Harness:
    """A broker that cannot read the committed offsets of group "g"."""
    commit(harness, {T0: 7})
    partition = harness.services.groups.store.partition_of("g")
    harness.crash()
    directory = Path(harness.data_dir) / f"__consumer_offsets-{partition}"
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    directory.touch()
    return harness


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_or_topic_that_nobody_knows_has_no_offsets(harness: Harness, version: int) -> None:
    nothing = NOTHING if version < 10 else (*NOTHING[:3], ErrorCode.UNKNOWN_TOPIC_ID)
    assert fetch(harness, ("none", 3), group_id="unknown", version=version) == {("none", 3): nothing}
    assert fetch(harness, T0, group_id="unknown", version=version) == {T0: NOTHING}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_cannot_be_read_has_an_error_at_its_partitions_before_version_2_and_of_its_own_later(
    unreadable: Harness, version: int
) -> None:
    code, topics = fetch_with_error(unreadable, T0, version=version)
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (code, topics) == ((0, {T0: (-1, -1, "", unavailable)}) if version < 2 else (unavailable, {}))


def test_a_commit_to_a_group_that_cannot_be_read_is_refused(unreadable: Harness) -> None:
    assert commit(unreadable, {T0: 8}) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


U0, U1 = ("u", 0), ("u", 1)


@pytest.fixture
def committed(harness: Harness) -> Harness:
    """A broker with committed offsets of two topics for group "g"."""
    harness.create("u", 2)
    commit(harness, {T0: 1, U0: 2, U1: 3})
    return harness


def test_deleted_offsets_are_gone_also_after_a_restart(committed: Harness) -> None:
    assert delete(committed, T0, U1) == (0, {T0: 0, U1: 0})
    assert offsets_of(committed) == {U0: 2}
    committed.restart()
    assert offsets_of(committed) == {U0: 2}


def test_a_group_with_members_that_are_no_consumers_keeps_everything(committed: Harness) -> None:
    with_members(committed, protocol_type="connect")
    assert delete(committed, T0) == (ErrorCode.NON_EMPTY_GROUP, {})
    with_members(committed, protocol_type="connect", members=())
    assert delete(committed, T0) == (0, {T0: 0})


def test_nothing_is_forgotten_when_the_disk_refuses(committed: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Log, "commit", refuse)
        assert delete(committed, T0) == (ErrorCode.NOT_COORDINATOR, {})
    assert offsets_of(committed) == {T0: 1, U0: 2, U1: 3}
