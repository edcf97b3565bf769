"""Share sessions: epochs, added and forgotten partitions, the limit, and lost connections."""

import pytest

from minibroker.coordinators.share_partitions.sessions import ShareSessionError, ShareSessions
from minibroker_protocol.error_codes import ErrorCode

T0, T1, U0 = (b"t" * 16, 0), (b"t" * 16, 1), (b"u" * 16, 0)
MEMBER = ("g", "m")


@pytest.fixture
def sessions() -> ShareSessions:
    """Return an object with room for two sessions."""
    return ShareSessions(2)


def test_the_first_epoch_follows_the_largest_one(sessions: ShareSessions) -> None:
    session = sessions.open(MEMBER, [T0], "connection")
    session.epoch = 0x7FFFFFFF
    sessions.next(MEMBER, 0x7FFFFFFF)
    assert session.epoch == 1


def test_a_response_includes_only_changed_partitions(sessions: ShareSessions) -> None:
    session = sessions.open(MEMBER, [T0, T1], "connection")
    session.update([T0, U0], [T1])
    assert list(session.partitions) == [T0, U0]
    assert not session.is_in_response(T0, has_records=False, has_failed=False)
    assert session.is_in_response(U0, has_records=False, has_failed=False), "it was named for the first time"
    assert not session.is_in_response(U0, has_records=False, has_failed=False)
    assert session.is_in_response(T0, has_records=True, has_failed=False)
    assert list(session.partitions) == [U0, T0], "the other one comes first the next time"
    assert session.is_in_response(T0, has_records=False, has_failed=True)
    assert session.is_in_response(T0, has_records=False, has_failed=False), "the end of an error is news"


def test_a_member_can_reopen_its_session_at_the_limit(sessions: ShareSessions) -> None:
    sessions.open(MEMBER, [T0], "one")
    sessions.open(("g", "n"), [T0], "two")
    sessions.open(MEMBER, [T0], "three")
    with pytest.raises(ShareSessionError) as refused:
        sessions.open(("h", "m"), [T0], "four")
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions) == 2
