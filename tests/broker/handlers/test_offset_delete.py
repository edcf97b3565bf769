"""OffsetDelete: what is forgotten, and what is kept; codes compared with Kafka 3.9.1."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.errors import LogWriteError
from minibroker_storage.log import Log
from tests.broker.coordinators.groups.offset_requests import commit, delete, offsets_of, with_members
from tests.broker.harness import Harness

T0, U0, U1 = ("t", 0), ("u", 0), ("u", 1)


@pytest.fixture
def committed(harness: Harness) -> Harness:
    """A broker where group "g" has committed offsets of two topics."""
    harness.create("u", 2)
    commit(harness, {T0: 1, U0: 2, U1: 3})
    return harness


def test_deleted_offsets_are_gone_also_after_a_restart(committed: Harness) -> None:
    assert delete(committed, T0, U1) == (0, {T0: 0, U1: 0})
    assert offsets_of(committed) == {U0: 2}
    committed.restart()
    assert offsets_of(committed) == {U0: 2}


def test_members_keep_the_offsets_of_what_they_are_subscribed_to(committed: Harness) -> None:
    with_members(committed, topics=("u",))
    assert delete(committed, T0, U0) == (0, {T0: 0, U0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert offsets_of(committed) == {U0: 2, U1: 3}


def test_a_group_with_members_that_are_no_consumers_keeps_everything(committed: Harness) -> None:
    with_members(committed, protocol_type="connect")
    assert delete(committed, T0) == (ErrorCode.NON_EMPTY_GROUP, {})
    with_members(committed, protocol_type="connect", members=())
    assert delete(committed, T0) == (0, {T0: 0})


def test_nothing_is_forgotten_when_the_disk_refuses(committed: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(log: Log) -> None:
        raise LogWriteError("no space", log.log_end_offset)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "commit", refuse)
        assert delete(committed, T0) == (ErrorCode.NOT_COORDINATOR, {})
    assert offsets_of(committed) == {T0: 1, U0: 2, U1: 3}
