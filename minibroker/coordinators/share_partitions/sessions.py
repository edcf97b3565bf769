"""Share sessions: the partitions that a member fetches from a broker, and the epoch of its next request (KIP-932).

A request with epoch 0 opens a member's session, in place of an earlier one; each later request has the next epoch and
names changes alone; -1 ends it (Kafka's `ShareSessionCache`). The connection that opened a session ends it, too.
"""

from collections.abc import Iterable
from typing import Final

from minibroker_protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_FIRST_EPOCH: Final = 1
_LAST_EPOCH: Final = 0x7FFFFFFF

TopicIdPartition = tuple[bytes, int]
"""A partition by its topic's id and its number."""
MemberKey = tuple[str, str]
"""A member by its group's id and its own."""


class ShareSessionError(Exception):
    """A request that is not the next one of its session. `code` is the error that it gets."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class ShareSession:
    """One session.

    Attributes:
        epoch: of the next request.
        partitions: those to fetch from, and for each whether the member has to hear of it although it has no records.
        connection: the connection that has opened it.
        served: the partitions whose records the last answer had.
    """

    __slots__ = ("connection", "epoch", "partitions", "served")

    def __init__(self, partitions: Iterable[TopicIdPartition], connection: object) -> None:
        self.epoch = _FIRST_EPOCH
        self.partitions = dict.fromkeys(partitions, False)
        self.connection = connection
        self.served: set[TopicIdPartition] = set()

    def in_turn(self, epoch: int) -> list[TopicIdPartition]:
        """The partitions in the order in which the request of this epoch takes them.

        Another one comes first each time (`PartitionRotateStrategy`), and those that were served last come last: Kafka
        has to look up where they go on, and takes the others before.
        """
        partitions = list(self.partitions)
        at = epoch % len(partitions) if partitions and epoch > 0 else 0
        turned = partitions[at:] + partitions[:at]
        return sorted(turned, key=self.served.__contains__) if self.served else turned

    def update(self, named: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Add partitions that a request names, and leave out those that it forgets."""
        for each in named:
            self.partitions.setdefault(each, True)
        for each in forgotten:
            self.partitions.pop(each, None)

    def has_to_tell(self, partition: TopicIdPartition, *, has_records: bool, has_failed: bool) -> bool:
        """Does the member have to hear of a partition (`CachedSharePartition.maybeUpdateResponseData`)?"""
        if partition not in self.partitions:
            return True
        has_to = has_records or has_failed or self.partitions[partition]
        self.partitions[partition] = has_failed
        if has_records:
            self.partitions[partition] = self.partitions.pop(partition)
        return has_to


class ShareSessions:
    """The sessions of one broker, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._connections: dict[object, dict[MemberKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions of all sessions."""
        return sum(len(each.partitions) for each in self._sessions.values())

    def get(self, member: MemberKey) -> ShareSession | None:
        """The session of a member, if it has one."""
        return self._sessions.get(member)

    def open(self, member: MemberKey, partitions: Iterable[TopicIdPartition], connection: object) -> ShareSession:
        """Open a session. SHARE_SESSION_LIMIT_REACHED."""
        self.close(member)
        if len(self._sessions) >= self._limit:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[member] = ShareSession(partitions, connection)
        self._connections.setdefault(connection, {})[member] = None
        return session

    def next(self, member: MemberKey, epoch: int) -> ShareSession:
        """The session whose next request has this epoch; it goes on, unless the epoch is FINAL_EPOCH.

        SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(member)
        if session is None:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise ShareSessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = _FIRST_EPOCH if epoch == _LAST_EPOCH else epoch + 1
        return session

    def close(self, member: MemberKey) -> ShareSession | None:
        """End a session; returns it, if there was one."""
        session = self._sessions.pop(member, None)
        if session is not None:
            opened = self._connections.get(session.connection, {})
            opened.pop(member, None)
            if not opened:
                self._connections.pop(session.connection, None)
        return session

    def opened_by(self, connection: object) -> list[MemberKey]:
        """The members whose sessions a connection has opened."""
        return list(self._connections.get(connection, ()))

    def has_group(self, group_id: str) -> bool:
        """Whether any member of a group has a session."""
        return any(group == group_id for group, _ in self._sessions)
