"""OffsetFetch: committed offsets in every version; codes compared with Kafka 3.9.1."""

from pathlib import Path

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.groups.offset_requests import NOTHING, commit, fetch, fetch_with_error
from tests.broker.harness import Harness

VERSIONS = range(11)
T0, T1 = ("t", 0), ("t", 1)


@pytest.fixture
def unreadable(harness: Harness) -> Harness:
    """A broker that cannot read what group "g" has committed."""
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
def test_offsets_are_told_with_their_metadata_and_from_version_5_on_with_their_leader_epoch(
    harness: Harness, version: int
) -> None:
    commit(harness, {T0: 7}, metadata="m", each_committed_leader_epoch=4)
    assert fetch(harness, T0, T1, version=version) == {T0: (7, 4 if version >= 5 else -1, "m", 0), T1: NOTHING}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_or_topic_that_nobody_knows_has_no_offsets(harness: Harness, version: int) -> None:
    nothing = NOTHING if version < 10 else (*NOTHING[:3], ErrorCode.UNKNOWN_TOPIC_ID)
    assert fetch(harness, ("none", 3), group_id="unknown", version=version) == {("none", 3): nothing}
    assert fetch(harness, T0, group_id="unknown", version=version) == {T0: NOTHING}


@pytest.mark.parametrize("version", range(2, 11))
def test_null_topics_are_all_that_is_committed(harness: Harness, version: int) -> None:
    harness.create("u", 2)
    assert fetch(harness, version=version) == {}
    commit(harness, {T0: 7, ("u", 1): 8})
    assert fetch(harness, version=version) == {T0: (7, -1, "", 0), ("u", 1): (8, -1, "", 0)}


def test_a_fetch_makes_neither_a_group_nor_the_topic(harness: Harness) -> None:
    fetch(harness, T0)
    assert harness.services.groups.store.get("g") is None
    assert harness.core.topics.get("__consumer_offsets") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_cannot_be_read_has_an_error_at_its_partitions_before_version_2_and_of_its_own_later(
    unreadable: Harness, version: int
) -> None:
    code, found = fetch_with_error(unreadable, T0, version=version)
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (code, found) == ((0, {T0: (-1, -1, "", unavailable)}) if version < 2 else (unavailable, {}))


def test_a_commit_to_a_group_that_cannot_be_read_is_refused(unreadable: Harness) -> None:
    assert commit(unreadable, {T0: 8}) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
