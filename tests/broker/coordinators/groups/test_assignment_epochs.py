"""Assignment epochs of partitions and the assignment interval, both new in Kafka 4.3."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.config.configs import GROUP, SET, change_request
from tests.broker.coordinators.groups import offset_requests
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.harness import Harness

Configured = Callable[[dict[str, str]], Harness]
STALE = ErrorCode.STALE_MEMBER_EPOCH


def commit(consumers: Consumers, member: str, epoch: int, *indexes: int) -> set[int]:
    """Commit an offset for partitions of the topic "four", and return the error codes."""
    offsets = {("four", index): 1 for index in indexes}
    codes = offset_requests.commit(consumers.harness, offsets, member_id=member, generation_id_or_member_epoch=epoch)
    return set(codes.values())


def halves(harness: Harness, first: int) -> Consumers:
    """Make a group of two members with two partitions each, and return its driver.

    The first member has had its partitions since epoch `first`, and the second since the next epoch.
    """
    harness.create("four", 4)
    consumers = Consumers(harness)
    consumers.beat("a", topics=["four"])
    consumers.beat("b", topics=["four"])
    consumers.beat("a", first, {"four": [0, 1]})
    consumers.beat("a", first, {"four": [0, 1]})
    consumers.beat("b", first + 1)
    return consumers


def test_a_member_can_commit_in_any_epoch_since_its_partitions_were_assigned(
    again: Callable[[Harness], None], harness: Harness
) -> None:
    consumers = halves(harness, 2)
    for _ in range(2):
        assert commit(consumers, "a", 2, 0, 1) == commit(consumers, "a", 3, 0, 3) == {0}
        assert (
            commit(consumers, "a", 1, 0) == commit(consumers, "a", 2, 3) == commit(consumers, "a", 2, 0, 3) == {STALE}
        )
        assert commit(consumers, "b", 2, 2) == commit(consumers, "a", 4, 0) == {STALE}
        assert commit(consumers, "a", 2, 0, 9) == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        again(harness)


def test_an_earlier_epoch_is_stale_before_kafka_4_3(configured: Configured) -> None:
    consumers = halves(configured({"minibroker.emulate": "4.2"}), 1)
    assert commit(consumers, "a", 2, 0) == {0}
    assert commit(consumers, "a", 1, 0) == {STALE}


def test_a_returning_static_member_can_commit_in_earlier_epochs(harness: Harness) -> None:
    harness.create("four", 4)
    consumers = Consumers(harness)
    consumers.beat("a", topics=["four"], instance_id="i")
    consumers.beat("a", -2, instance_id="i")
    assert commit(consumers, "a", 2, 0) == {STALE}
    assert consumers.beat("again", topics=["four"], instance_id="i").member_epoch == 2
    assert commit(consumers, "again", 1, 0, 3) == {0}


@pytest.mark.parametrize("release", ["4.2", "4.3", "4.4"])
def test_an_assignment_is_kept_for_the_interval_since_kafka_4_3(release: str, configured: Configured) -> None:
    consumers = Consumers(configured({"minibroker.emulate": release}))
    interval = change_request(GROUP, "g", (SET, "consumer.assignment.interval.ms", "2000"))
    code = consumers.harness.ask(interval, 1).responses[0].error_code
    assert code == (ErrorCode.INVALID_CONFIG if release == "4.2" else 0)
    joined = consumers.beat("a").member_epoch
    latest = consumers.beat("b").member_epoch
    if release == "4.2":
        assert (joined, latest) == (1, 2)
        return
    assert (joined, latest) == (2, 2)
    assert (consumers.describe().group_epoch, consumers.describe().group_state) == (3, "Assigning")
    consumers.harness.clock.advance(1_990)
    assert consumers.beat("b", 2).member_epoch == 2
    consumers.harness.restart()
    assert consumers.beat("b", 2).member_epoch == 2
    consumers.harness.clock.advance(20)
    assert consumers.beat("b", 2).member_epoch == 3


def test_the_default_assignment_interval_is_a_second(harness: Harness) -> None:
    consumers = Consumers(harness, "h")
    harness.ask(change_request(GROUP, "h", (1, "consumer.assignment.interval.ms", None)), 1)
    consumers.beat("a")
    assert consumers.beat("b").member_epoch == 2
    harness.clock.advance(1_010)
    assert consumers.beat("b", 2).member_epoch == 3


@pytest.mark.parametrize("release", ["4.1", "4.2"])
def test_a_member_revokes_unsubscribed_topics_before_its_next_assignment(release: str, configured: Configured) -> None:
    consumers = Consumers(configured({"minibroker.emulate": release}))
    consumers.harness.create("four", 4)
    consumers.beat("a", topics=["t", "four"])
    consumers.beat("b", topics=["four"])
    consumers.beat("a", 1, {"t": [0], "four": [0, 1, 2, 3]})
    kept = consumers.given(consumers.beat("a", 1, {"t": [0], "four": [0, 1, 2, 3]}, topics=["four"]))
    assert kept is None or "t" not in kept
    assert ("t" in consumers.assigned()["a"]) == (release == "4.1")


@pytest.mark.parametrize(("release", "has_record"), [("4.0", True), ("4.1", False)])
def test_a_group_has_a_hash_of_its_topics_since_kafka_4_1(
    release: str, configured: Configured, *, has_record: bool
) -> None:
    consumers = Consumers(configured({"minibroker.emulate": release}))
    consumers.beat("a")
    for _ in range(2):
        assert consumers.describe().group_epoch == 1
        group = consumers.harness.services.groups.store.get_consumer("g")
        assert group is not None
        assert (group.has_topics_record, group.metadata_hash != 0) == (has_record, not has_record)
        assert consumers.beat("a", 1).member_epoch == 1
        consumers.harness.restart()


def test_a_directory_of_an_earlier_release_can_be_used(tmp_path: Path) -> None:
    with closing(Harness(str(tmp_path), {"minibroker.emulate": "4.0"})) as harness:
        harness.create()
        Consumers(harness).beat("a")
    with closing(Harness(str(tmp_path), {})) as harness:
        consumers = Consumers(harness)
        assert consumers.describe().group_epoch == 1
        group = harness.services.groups.store.get_consumer("g")
        assert group is not None
        assert group.has_topics_record
        assert consumers.given(consumers.beat("a", 1)) is None
        assert (consumers.describe().group_epoch, consumers.describe().group_state) == (2, "Stable")
        assert not group.has_topics_record
