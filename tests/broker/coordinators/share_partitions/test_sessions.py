"""Share sessions: epochs, partitions that come and go, the limit, and connections that are lost."""

import pytest

from minibroker.coordinators.share_partitions.sessions import FINAL_EPOCH, ShareSessionError, ShareSessions
from minibroker_protocol.error_codes import ErrorCode

T0, T1, U0 = (b"t" * 16, 0), (b"t" * 16, 1), (b"u" * 16, 0)
MEMBER = ("g", "m")


@pytest.fixture
def sessions() -> ShareSessions:
    """Room for two sessions."""
    return ShareSessions(2)


def test_each_request_has_the_next_epoch(sessions: ShareSessions) -> None:
    session = sessions.open(MEMBER, [T0], "connection")
    for epoch in (1, 2, 3):
        assert sessions.next(MEMBER, epoch) is session
    with pytest.raises(ShareSessionError) as refused:
        sessions.next(MEMBER, 3)
    assert refused.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.next(MEMBER, FINAL_EPOCH) is session
    assert sessions.close(MEMBER) is session
    with pytest.raises(ShareSessionError) as refused:
        sessions.next(MEMBER, 4)
    assert refused.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_epoch_after_the_largest_is_the_first_one(sessions: ShareSessions) -> None:
    session = sessions.open(MEMBER, [T0], "connection")
    session.epoch = 0x7FFFFFFF
    sessions.next(MEMBER, 0x7FFFFFFF)
    assert session.epoch == 1


def test_a_member_hears_of_what_is_new(sessions: ShareSessions) -> None:
    session = sessions.open(MEMBER, [T0, T1], "connection")
    session.update([T0, U0], [T1])
    assert list(session.partitions) == [T0, U0]
    assert not session.has_to_tell(T0, has_records=False, has_failed=False)
    assert session.has_to_tell(U0, has_records=False, has_failed=False), "it was named for the first time"
    assert not session.has_to_tell(U0, has_records=False, has_failed=False)
    assert session.has_to_tell(T0, has_records=True, has_failed=False)
    assert list(session.partitions) == [U0, T0], "the other one comes first the next time"
    assert session.has_to_tell(T0, has_records=False, has_failed=True)
    assert session.has_to_tell(T0, has_records=False, has_failed=False), "the end of an error is news"


def test_there_is_a_limit_and_a_member_begins_again_within_it(sessions: ShareSessions) -> None:
    sessions.open(MEMBER, [T0], "one")
    sessions.open(("g", "n"), [T0], "two")
    sessions.open(MEMBER, [T0], "three")
    with pytest.raises(ShareSessionError) as refused:
        sessions.open(("h", "m"), [T0], "four")
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 2


def test_a_connection_knows_the_sessions_that_it_has_opened(sessions: ShareSessions) -> None:
    sessions.open(MEMBER, [T0], "one")
    sessions.open(MEMBER, [T0], "two")
    assert sessions.opened_by("one") == [], "the member has begun again on another one"
    assert sessions.opened_by("two") == [MEMBER]
    assert sessions.has_group("g")
    sessions.close(MEMBER)
    assert sessions.opened_by("two") == []
    assert not sessions.has_group("g")
