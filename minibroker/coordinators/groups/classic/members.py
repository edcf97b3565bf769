"""A member of a classic group, and its pending JoinGroup and SyncGroup (Kafka's `MemberMetadata`)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.core import Core
from minibroker.routing.outcomes import DelayedResponse
from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolSubscription
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.errors import DecodeError


class Protocol(NamedTuple):
    """A way to assign partitions that a member offers, with its metadata for it (for consumers: its subscription)."""

    name: str
    metadata: bytes


class Reply(DelayedResponse):
    """The answer to a request that may have to wait for other members.

    It never leaves while another request is being handled: delivering it serves what waits behind it on its
    connection, and a group in the middle of a change is no place for that.
    """

    __slots__ = ("_call_soon", "_gone", "deliver", "response")

    deliver: Callable[[Any], None]

    def __init__(self, core: Core) -> None:
        self._call_soon = core.call_soon
        self._gone = False
        self.response: Any = None

    def answer(self, response: Any) -> None:
        """Answer, now or as soon as the present wake-up is done. Only the first answer counts."""
        if self.response is not None:
            return
        self.response = response
        if hasattr(self, "deliver") and not self._gone:
            self._call_soon(partial(self._deliver, response))

    def cancel(self) -> None:
        """The client has gone. The group goes on as if it waited, as in Kafka: only the session timeout counts."""
        self._gone = True
        if hasattr(self, "deliver"):
            del self.deliver

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return "the other members of its group"

    def outcome(self) -> Any:
        """The return value of the handler: the response if there is one, else this."""
        return self if self.response is None else self.response

    def _deliver(self, response: Any) -> None:
        if not self._gone:
            self.deliver(response)


class Member:
    """A member of a group; timeouts are in ms.

    Attributes:
        group_instance_id: what a static member is known by; its member id changes whenever it starts again (KIP-345).
        protocols: what it offers, the one that it prefers first.
        assignment: what the leader has given it.
        join, sync: its delayed JoinGroup or SyncGroup.
        is_new: it has not got an answer to its first JoinGroup, so it cannot send heartbeats yet.
        backs_off, joins_early: its client is sarama, or kafka-python 3 (`client_quirks`).
        joins_twice: its next SyncGroup is refused, so that it joins once more.
        session: when it is taken for dead; none while it is only read from the log.
    """

    __slots__ = (
        "assignment",
        "backs_off",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join",
        "joins_early",
        "joins_twice",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[Protocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = tuple(protocols)
        self.assignment = assignment
        self.join: Reply | None = None
        self.sync: Reply | None = None
        self.is_new = False
        self.backs_off = False
        self.joins_early = False
        self.joins_twice = False
        self.session: Deadline | None = None

    @property
    def is_static(self) -> bool:
        """Does it keep its place when it goes for a while?"""
        return self.group_instance_id is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; nothing for one that it does not offer."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics that a consumer subscribes to; none for other members."""
        try:
            subscription = decode_versioned(ConsumerProtocolSubscription, self.protocols[0].metadata)
        except DecodeError:
            return frozenset()
        return frozenset(subscription.topics)

    def vote(self, candidates: set[str]) -> str:
        """The candidate that it likes best; it offers all of them."""
        return next(each.name for each in self.protocols if each.name in candidates)

    def restart_session(self) -> None:
        """It is alive: its session begins again."""
        if self.session is not None:
            self.session.restart(self.session_timeout_ms)
