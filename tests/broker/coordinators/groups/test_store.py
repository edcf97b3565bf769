"""Committed offsets after restarts, crashes, compaction and deletions, and how they are loaded."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.cluster.routing.slices import drain
from minibroker.coordinators.coordinator_log import CoordinatorLog, java_hash
from minibroker.coordinators.groups.classic.group import GroupState
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import TRANSACTION_STATE
from minibroker_protocol.messages.groups import ListGroupsRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.errors import LogWriteError, StorageError
from minibroker_storage.log import Log
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.offset_requests import (
    MEMBER,
    NOTHING,
    commit,
    delete,
    delete_topics,
    fetch,
    fetch_with_error,
    group_of,
    offsets_of,
    with_members,
)
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness, frame_of, produce_request
from tests.broker.logs.world import log_of, topic_of

Make = Callable[[dict[str, str]], Harness]
Again = Callable[[Harness], None]
T0, U0, U1 = ("t", 0), ("u", 0), ("u", 1)
OFFSETS = "__consumer_offsets"
COMPACTED = {"offsets.topic.segment.bytes": "1000", "offsets.topic.num.partitions": "1"}


def test_javas_hash_of_the_group_id_chooses_the_partition(harness: Harness) -> None:
    commit(harness, {T0: 1}, "group-1")
    assert harness.services.groups.store.partition_of("group-1") == 49
    assert log_of(harness, OFFSETS, 49).log_end_offset == 1
    assert harness.services.groups.store.partition_of("polygenelubricants") == 0
    assert java_hash("polygenelubricants") == 1 << 31
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00
    geometric = (31**32767 - 1) // 30
    assert java_hash("y" * 32767) == ord("y") * geometric % (1 << 32)
    long = java_hash("y" * 32767) % (1 << 31)
    assert harness.services.groups.store.partition_of("y" * 32767) == long % 50


def test_the_first_commit_creates_the_topic_with_kafkas_configuration(configured: Make) -> None:
    harness = configured({"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "12345"})
    commit(harness, {T0: 1})
    topic = topic_of(harness, OFFSETS)
    assert len(topic.partitions) == 7
    assert topic.config.overrides == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "12345",
    }


def test_a_metadata_request_creates_the_coordinators_topics(harness: Harness) -> None:
    names = [MetadataRequestTopic(name=name) for name in (OFFSETS, TRANSACTION_STATE)]
    for topic in harness.ask(MetadataRequest(topics=names, allow_auto_topic_creation=True), 12).topics:
        assert (topic.error_code, len(topic.partitions), topic.is_internal) == (0, 50, True)
        assert topic_of(harness, topic.name).is_compacted
    assert commit(harness, {T0: 1}) == {T0: 0}
    assert Producer(harness).add_offsets("g") == 0


def test_offsets_are_compressed_with_the_configured_codec(configured: Make) -> None:
    harness = configured({"offsets.topic.compression.codec": "1"})
    commit(harness, {T0: 1})
    log = log_of(harness, OFFSETS, harness.services.groups.store.partition_of("g"))
    assert log.read(0, 1000).read()[22] & 7 == 1
    harness.restart()
    assert offsets_of(harness) == {T0: 1}


def test_offsets_survive_a_restart(harness: Harness, again: Again) -> None:
    harness.create("u", 2)
    commit(harness, {T0: 1, U0: 2}, metadata="m", each_committed_leader_epoch=3)
    commit(harness, {T0: 5})
    commit(harness, {U1: 7}, "other")
    for _ in range(2):
        again(harness)
        assert fetch(harness) == {T0: (5, -1, "", 0), U0: (2, 3, "m", 0)}
        assert offsets_of(harness, "other") == {U1: 7}


def test_a_group_is_restored_with_its_members_and_offsets(harness: Harness, again: Again) -> None:
    group = with_members(harness, members=("m", "n"))
    assert harness.services.groups.store.save_group(group) == 0
    assert commit(harness, {T0: 1}, **MEMBER) == {T0: 0}
    again(harness)
    assert commit(harness, {T0: 2}, **MEMBER) == {T0: 0}
    restored = group_of(harness)
    assert (restored.state, list(restored.members)) == (GroupState.STABLE, ["m", "n"])
    assert restored.subscribed_topics() == {"t"}


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_an_open_transaction_can_end_after_a_restart(harness: Harness, again: Again, ends: str) -> None:
    commit(harness, {T0: 1})
    producer = Producer(harness)
    producer.add_offsets("g")
    assert producer.commit_offset("g", 7) == 0
    again(harness)
    assert fetch(harness, T0, stable=True)[T0][3] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert producer.end(commit=ends == "commit") == 0
    expected = {T0: 7 if ends == "commit" else 1}
    assert offsets_of(harness) == expected
    again(harness)
    assert offsets_of(harness) == expected
    assert fetch(harness, T0, stable=True)[T0][3] == 0


def test_a_later_commit_wins_over_an_earlier_one_in_a_transaction(harness: Harness, again: Again) -> None:
    producer = Producer(harness)
    producer.add_offsets("g")
    producer.commit_offset("g", 7)
    commit(harness, {T0: 9})
    producer.commit()
    again(harness)
    assert offsets_of(harness) == {T0: 9}


def test_the_log_can_be_compacted_between_restarts(configured: Make, again: Again) -> None:
    harness = configured(COMPACTED)
    harness.create("u", 2)
    group = with_members(harness, members=())
    for offset in range(50):
        commit(harness, {T0: offset, U0: offset + 1})
        assert harness.services.groups.store.save_group(group) == 0
    producer = Producer(harness)
    for offset in range(50):
        producer.add_offsets("g")
        producer.commit_offset("g", 100 + offset, topic="u", partition=1)
        producer.end(commit=offset % 3 == 0)
    delete(harness, U0)
    before = log_of(harness, OFFSETS).size
    harness.core.logs.compact(roll=True)
    harness.run_soon()
    assert log_of(harness, OFFSETS).size < before / 4
    again(harness)
    assert offsets_of(harness) == {T0: 49, U1: 148}
    assert group_of(harness).generation == 3


def test_offsets_are_removed_with_their_topics(harness: Harness, again: Again) -> None:
    harness.create("u", 2)
    commit(harness, {T0: 1, U0: 2, U1: 3})
    commit(harness, {U0: 2}, "other")
    delete_topics(harness, "u")
    assert offsets_of(harness) == {T0: 1}
    assert group_of(harness, "other").is_in(GroupState.EMPTY)
    harness.create("u", 2)
    assert offsets_of(harness) == {T0: 1}
    again(harness)
    assert offsets_of(harness) == {T0: 1}
    assert harness.services.groups.store.get("other") is None


def test_an_empty_group_without_offsets_stays_when_a_topic_is_deleted(harness: Harness) -> None:
    harness.create("u")
    commit(harness, {T0: 1})
    left = Members(harness, "left")
    left.leave(left.alone())
    assert harness.services.groups.store.get("left") is not None
    delete_topics(harness, "u")
    assert harness.services.groups.store.get("left") is not None
    assert offsets_of(harness) == {T0: 1}


@pytest.mark.parametrize("restarts_first", [False, True])
def test_offsets_in_open_transactions_are_removed_with_their_topic(
    harness: Harness, again: Again, *, restarts_first: bool
) -> None:
    harness.create("u")
    producer = Producer(harness)
    producer.add_offsets("g")
    producer.commit_offset("g", 7, topic="u")
    producer.commit_offset("g", 8)
    delete_topics(harness, "u")
    if restarts_first:
        again(harness)
        assert fetch(harness, U0, stable=True) == {U0: NOTHING}
    producer.commit()
    assert offsets_of(harness) == {T0: 8}
    again(harness)
    assert offsets_of(harness) == {T0: 8}


def test_groups_are_removed_with_the_offsets_topic(harness: Harness) -> None:
    group = with_members(harness)
    harness.services.groups.store.save_group(group)
    commit(harness, {T0: 1}, "other")
    delete_topics(harness, OFFSETS)
    assert list(harness.services.groups.store.groups()) == []
    assert group.state is GroupState.DEAD
    assert offsets_of(harness, "other") == {}
    assert harness.core.topics.get(OFFSETS) is None
    commit(harness, {T0: 2}, "other")
    assert offsets_of(harness, "other") == {T0: 2}
    harness.restart()
    assert offsets_of(harness, "other") == {T0: 2}


def test_a_removed_group_stays_removed_after_a_restart(harness: Harness, again: Again) -> None:
    group = with_members(harness, members=())
    store = harness.services.groups.store
    store.save_group(group)
    commit(harness, {T0: 1})
    assert drain(store.forget(group, group.offsets.everything, removes_group=True)) == 0
    assert (store.get("g"), group.state) == (None, GroupState.DEAD)
    again(harness)
    assert offsets_of(harness) == {}
    assert harness.services.groups.store.get("g") is None


def test_a_group_too_large_for_a_batch_is_an_unknown_error(harness: Harness, errors: Callable[[], list[str]]) -> None:
    group = with_members(harness, members=tuple(f"{number}-{'m' * 30_000}" for number in range(40)))
    assert harness.services.groups.store.save_group(group) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(errors()) == 1


def test_a_disk_error_makes_clients_look_for_another_coordinator(harness: Harness) -> None:
    group = with_members(harness)
    with patch.object(Log, "commit", side_effect=LogWriteError("no space", 0)):
        assert harness.services.groups.store.save_group(group) == ErrorCode.NOT_COORDINATOR
    assert harness.services.groups.store.save_group(group) == 0


def test_internal_topics_of_an_adopted_directory_are_compacted(harness: Harness) -> None:
    commit(harness, {T0: 1})
    harness.services.close()
    (Path(harness.data_dir) / "minibroker-topics.json").unlink()
    adopting = Harness(harness.data_dir)
    assert topic_of(adopting, OFFSETS).is_compacted
    assert offsets_of(adopting) == {T0: 1}
    adopting.close()


@pytest.mark.parametrize(
    ("limit", "name", "partitions", "commits"),
    [("1048588", "x" * 240, 2500, 2), ("1000", "u", 200, 200)],
    ids=["many partitions", "small batches"],
)
def test_a_group_is_removed_in_batches_that_fit_the_topic(
    configured: Make, limit: str, name: str, partitions: int, commits: int
) -> None:
    harness = configured({"message.max.bytes": limit})
    harness.create(name, partitions)
    size = partitions // commits
    for first in range(0, partitions, size):
        offsets = {(name, index): 1 for index in range(first, first + size)}
        assert commit(harness, offsets) == dict.fromkeys(offsets, 0)
    group = group_of(harness)
    assert drain(harness.services.groups.store.forget(group, group.offsets.everything, removes_group=True)) == 0
    harness.restart()
    assert offsets_of(harness) == {}


def test_new_partitions_do_not_count_until_the_next_start(harness: Harness) -> None:
    commit(harness, {T0: 1})
    home = harness.services.groups.store.partition_of("g")
    producer = Producer(harness)
    producer.write(b"x")
    producer.add_offsets("g")
    assert producer.commit_offset("g", 2) == 0
    grown = [CreatePartitionsTopic(name=name, count=77) for name in (OFFSETS, TRANSACTION_STATE)]
    for result in harness.ask(CreatePartitionsRequest(topics=grown, timeout_ms=1000), 3).results:
        assert result.error_code == 0
    assert harness.services.groups.store.partition_of("g") == home
    assert producer.commit() == 0
    assert offsets_of(harness) == {T0: 2}
    assert log_of(harness).last_stable_offset == log_of(harness).log_end_offset


def test_only_the_admin_client_can_write_to_the_topic(harness: Harness) -> None:
    commit(harness, {T0: 1})
    records = build_batch([NewRecord(b"k", b"v", 0)])
    assert harness.produce(records, OFFSETS).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert harness.produce(records, "t").error_code == 0
    request = produce_request(build_batch([NewRecord(b"k", b"v", 0)]), OFFSETS)
    frame = memoryview(bytearray(frame_of(request, 9, client_id="__admin_client")))
    answer = accept(frame, harness.session())
    assert isinstance(answer, Answer)
    harness.core.writes.commit()
    assert answer.response.responses[0].partition_responses[0].error_code == 0


def test_a_small_partition_is_ready_while_all_are_loading(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"group-{number}" for number in range(20)]
    for offset, name in enumerate(names):
        commit(harness, {T0: offset}, name)
    harness.restart()
    monkeypatch.setattr("minibroker.cluster.logs.chores._SLICE_S", -1.0)
    store = harness.services.groups.store
    store.load_all()
    has_begun = store.is_loading
    assert has_begun
    assert [store.check_readiness(name) for name in reversed(names)] == [0] * 20
    harness.run_soon()
    assert not store.is_loading
    assert {group.group_id for group in store.groups()} == set(names)
    assert offsets_of(harness, "group-19") == {T0: 19}


class TestLoading:
    """A partition whose log is too large for a replay within one request."""

    @pytest.fixture
    def loading(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
        """Return a broker that has just begun to load the partition of group "g"."""
        harness.create("u", 2)
        commit(harness, {T0: 1, U0: 2})
        harness.services.groups.store.save_group(with_members(harness, members=()))
        producer = Producer(harness)
        producer.add_offsets("g")
        producer.commit_offset("g", 7)
        self.producer = producer
        harness.restart()
        monkeypatch.setattr("minibroker.coordinators.partition_loader._MAX_SINGLE_STEP_BYTES", 1)
        monkeypatch.setattr("minibroker.cluster.logs.chores._SLICE_S", -1.0)
        return harness

    def test_requests_get_an_error_until_loading_ends(self, loading: Harness) -> None:
        assert fetch_with_error(loading, T0) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
        assert offsets_of(loading) == {T0: 1, U0: 2}
        assert not loading.services.groups.store.is_loading

    def test_a_partition_is_loaded_completely_or_not_at_all(self, loading: Harness) -> None:
        assert readiness(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert loading.services.groups.store.is_loading
        assert list(loading.services.groups.store.groups()) == []
        assert readiness(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        loading.run_soon()
        assert readiness(loading) == 0

    def test_a_transaction_that_ends_during_loading_counts(self, loading: Harness) -> None:
        assert readiness(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        store = loading.services.groups.store
        store.complete_transaction(store.partition_of("g"), self.producer.id, commit=True)
        loading.run_soon()
        assert offsets_of(loading) == {T0: 7, U0: 2}

    def test_a_topic_deleted_during_loading_has_no_offsets_afterwards(self, loading: Harness) -> None:
        assert readiness(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        delete_topics(loading, "u")
        assert offsets_of(loading) == {T0: 1}

    def test_the_offsets_topic_can_be_deleted_during_loading(self, loading: Harness) -> None:
        assert readiness(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        delete_topics(loading, OFFSETS)
        assert offsets_of(loading) == {}
        assert not loading.services.groups.store.is_loading


def readiness(harness: Harness) -> int:
    """Return the immediate response to a request, without running scheduled callbacks."""
    return int(harness.services.groups.store.check_readiness("g"))


def test_groups_are_listed_after_their_partition_becomes_readable(harness: Harness) -> None:
    commit(harness, {T0: 7})
    with patch.object(CoordinatorLog, "replay", side_effect=StorageError("no good")):
        harness.restart()
        harness.run_soon()
        assert harness.ask(ListGroupsRequest(), 5).groups == []
    harness.clock.advance(5000)
    assert [group.group_id for group in harness.ask(ListGroupsRequest(), 5).groups] == ["g"]


def test_an_unreadable_partition_is_retried_after_a_pause(harness: Harness, errors: Callable[[], list[str]]) -> None:
    commit(harness, {T0: 7})
    partition = harness.services.groups.store.partition_of("g")
    harness.crash()
    directory = Path(harness.data_dir) / f"{OFFSETS}-{partition}"
    aside = directory.rename(directory.with_name("aside"))
    directory.touch()
    for _ in range(3):
        assert fetch_with_error(harness, T0)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len([line for line in errors() if OFFSETS in line]) == 1
    directory.unlink()
    aside.rename(directory)
    assert fetch_with_error(harness, T0)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.clock.advance(5000)
    assert offsets_of(harness) == {T0: 7}


def test_groups_are_sorted_again_when_the_topic_is_created(harness: Harness) -> None:
    store = harness.services.groups.store
    names = [f"group-{number}" for number in range(20)]
    for name in names:
        store.find_or_create(name)
    harness.create(OFFSETS, 3)
    assert store.check_readiness(names[0]) == 0
    moving = {name for name in names if store.partition_of(name) == 1}
    store.leader_moved(1)
    assert {group.group_id for group in store.groups()} == set(names) - moving
