"""Share sessions: the partitions that a member fetches from a broker, and the epoch of its next request (KIP-932).

A request with epoch 0 opens a member's session and replaces an earlier session. Each later request has the next epoch
and names only changes. Epoch -1 closes the session (Kafka's `ShareSessionCache`). A session also closes when the
connection that opened it closes.
"""

from collections.abc import Iterable
from typing import Final

from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker_protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_FIRST_EPOCH: Final = 1
_LAST_EPOCH: Final = 0x7FFFFFFF

TopicIdPartition = tuple[bytes, int]
"""A partition's topic id and index."""
MemberKey = tuple[str, str]
"""A group id and a member id."""


class ShareSessionError(RefusedRequestError):
    """The refusal of a request that does not continue its session."""


class ShareSession:
    """A share session of one member.

    Attributes:
        epoch: The epoch of the next request.
        partitions: The partitions to fetch. The value is True if the next response must include the partition even
            if it has no records.
        connection: The connection that opened the session.
        served: The partitions with records in the last response.
    """

    __slots__ = ("connection", "epoch", "partitions", "served")

    def __init__(self, partitions: Iterable[TopicIdPartition], connection: object) -> None:
        self.epoch = _FIRST_EPOCH
        self.partitions = dict.fromkeys(partitions, False)
        self.connection = connection
        self.served: set[TopicIdPartition] = set()

    def fetch_order(self, epoch: int) -> list[TopicIdPartition]:
        """Return the partitions in the order in which the request with this epoch fetches them.

        The order rotates with each request (`PartitionRotateStrategy`). Partitions with records in the last response
        come last, because Kafka fetches them only after it has looked up the offsets at which they continue.
        """
        partitions = list(self.partitions)
        offset = epoch % len(partitions) if partitions and epoch > 0 else 0
        rotated = partitions[offset:] + partitions[:offset]
        return sorted(rotated, key=self.served.__contains__) if self.served else rotated

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Add the partitions that a request names, and remove the partitions that it forgets."""
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def is_in_response(self, partition: TopicIdPartition, *, has_records: bool, has_failed: bool) -> bool:
        """Return whether the response must include a partition (`CachedSharePartition.maybeUpdateResponseData`)."""
        if partition not in self.partitions:
            return True
        is_included = has_records or has_failed or self.partitions[partition]
        self.partitions[partition] = has_failed
        if has_records:
            self.partitions[partition] = self.partitions.pop(partition)
        return is_included


class ShareSessions:
    """The share sessions of one broker, limited to `limit` sessions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._connections: dict[object, dict[MemberKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, member: MemberKey) -> ShareSession | None:
        """Return the session of a member, or None."""
        return self._sessions.get(member)

    def open(self, member: MemberKey, partitions: Iterable[TopicIdPartition], connection: object) -> ShareSession:
        """Open a session.

        Raises:
            ShareSessionError: SHARE_SESSION_LIMIT_REACHED.
        """
        self.close(member)
        if len(self._sessions) >= self._limit:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[member] = ShareSession(partitions, connection)
        self._connections.setdefault(connection, {})[member] = None
        return session

    def next(self, member: MemberKey, epoch: int) -> ShareSession:
        """Return a member's session for a request with this epoch, and advance the session's epoch.

        A request with FINAL_EPOCH does not advance it.

        Raises:
            ShareSessionError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        if (session := self._sessions.get(member)) is None:
            raise ShareSessionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise ShareSessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = _FIRST_EPOCH if epoch == _LAST_EPOCH else epoch + 1
        return session

    def close(self, member: MemberKey) -> ShareSession | None:
        """Close a member's session and return it, or None if the member has no session."""
        if (session := self._sessions.pop(member, None)) is not None:
            opened = self._connections.get(session.connection, {})
            opened.pop(member, None)
            if not opened:
                self._connections.pop(session.connection, None)
        return session

    def find_by_connection(self, connection: object) -> list[MemberKey]:
        """Return the members whose sessions a connection has opened."""
        return list(self._connections.get(connection, ()))

    def has_group(self, group_id: str) -> bool:
        """Return whether any member of a group has a session."""
        return any(group == group_id for group, _ in self._sessions)
