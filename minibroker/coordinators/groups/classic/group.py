"""A group of the classic protocol and its members: state, generation, delayed requests (Kafka's `GroupMetadata`).

The order of events is in `rebalances`, and the responses are in `coordinator`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from minibroker.clock import Clock
from minibroker.cluster.core import Core
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolSubscription
from minibroker_protocol.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError

CONSUMER: Final = "consumer"
"""The protocol type of consumers. Their metadata is a subscription."""
_NEVER: Final = -1


class GroupState(Enum):
    """The state of a classic group. The values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final = {
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}
"""The states from which each state can be entered (Kafka's `ClassicGroupState.validPreviousStates`)."""


class Protocol(NamedTuple):
    """A protocol that a member supports, with the member's metadata for it.

    A consumer's metadata is its subscription.
    """

    name: str
    metadata: bytes


class Reply(DelayedResponse):
    """The response to a request that may have to wait for other members.

    A reply is never delivered while another request is handled. A delivery makes the connection serve its next
    requests, and the group could be only partly changed at that time.
    """

    __slots__ = ("_call_soon", "_gone", "deliver", "response")

    deliver: Callable[[Any], None]

    def __init__(self, core: Core) -> None:
        self._call_soon = core.call_soon
        self._gone = False
        self.response: Any = None

    def answer(self, response: Any) -> None:
        """Set the response, to be sent now or after the current wake-up. Only the first response counts."""
        if self.response is not None:
            return
        self.response = response
        if hasattr(self, "deliver") and not self._gone:
            self._call_soon(partial(self._deliver, response))

    def cancel(self) -> None:
        """Cancel the request because its client disconnected.

        As in Kafka, the member stays in the group until its session times out.
        """
        self._gone = True
        if hasattr(self, "deliver"):
            del self.deliver

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return "the other members of its group"

    def outcome(self) -> Any:
        """Return the response if it is already available, or this object as a delayed response."""
        return self if self.response is None else self.response

    def _deliver(self, response: Any) -> None:
        if not self._gone:
            self.deliver(response)


@dataclass(slots=True, eq=False)
class Member:
    """A member of a classic group (Kafka's `MemberMetadata`). Timeouts are in milliseconds.

    Attributes:
        group_instance_id: The permanent id of a static member, whose member id changes with each start (KIP-345).
        protocols: The supported protocols, in order of preference.
        assignment: The assignment from the leader.
        join: The delayed response to a JoinGroup, or None.
        sync: The delayed response to a SyncGroup, or None.
        is_new: Whether the first JoinGroup is still waiting. Until it is answered, the member cannot send heartbeats.
        backs_off: Whether the client is sarama (`client_quirks`).
        joins_early: Whether the client is kafka-python 3 (`client_quirks`).
        joins_twice: Whether the next SyncGroup is rejected, so that the member joins again.
        session: The deadline of the session, or None before the session begins.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    join: Reply | None = None
    sync: Reply | None = None
    is_new: bool = False
    backs_off: bool = False
    joins_early: bool = False
    joins_twice: bool = False
    session: Deadline | None = None

    @property
    def is_static(self) -> bool:
        """Whether the member is static. A static member keeps its place in the group while it is absent."""
        return self.group_instance_id is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol, or empty bytes if the member does not support the protocol."""
        return next((offer.metadata for offer in self.protocols if offer.name == protocol), b"")

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics to which a consumer subscribes, or an empty set for other members."""
        try:
            subscription = decode_versioned(ConsumerProtocolSubscription, self.protocols[0].metadata)
        except DecodeError:
            return frozenset()
        return frozenset(subscription.topics)


class Group:
    """A classic group.

    Attributes:
        state_timestamp_ms: The time of the last state change, or None if a record of an old format lacks it.
        protocol_type: The members' protocol type, "consumer" for consumers, or None if the group never had members.
        protocol_name: The protocol selected for the current generation.
        members: The members by member id, in the order of joining.
        static_members: Member ids by instance id.
        pending: The clients that got a member id and have not joined with it yet, with their deadlines.
        waiting_to_join: The number of members with a delayed JoinGroup.
        pending_sync: The ids of members that have not sent their SyncGroup yet.
        new_member_added: Whether a member has joined since the initial rebalance delay began.
        offsets: The committed offsets.
    """

    kind = "classic"

    def __init__(self, group_id: str, clock: Clock) -> None:
        self._clock = clock
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms: int | None = clock.now_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, Deadline] = {}
        self.pending_sync: set[str] = set()
        self.waiting_to_join = 0
        self.new_member_added = False
        self.offsets = GroupOffsets()
        self._supported: Counter[str] = Counter()  # The number of members that support each protocol.
        self._subscriptions: tuple[bytes, ...] | None = None  # The generation's subscriptions, decoded on first use.
        self._subscribed_topics: set[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the group has neither members nor joining clients."""
        return self.state is GroupState.EMPTY

    def die(self) -> None:
        """Move to the state DEAD."""
        self.move_to(GroupState.DEAD)

    def is_in(self, *states: GroupState) -> bool:
        """Return whether the group is in one of these states."""
        return self.state in states

    def move_to(self, state: GroupState) -> None:
        """Change the state.

        Raises:
            AssertionError: The current state does not allow the change.
        """
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.group_id}: {self.state} cannot become {state}"
        self.state = state
        self.state_timestamp_ms = self._clock.now_ms()

    def add(self, member: Member) -> None:
        """Add a member. The first member becomes the leader."""
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        # As in Kafka, the first member stays the leader until it leaves.
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._supported.update({protocol.name for protocol in member.protocols})
        self._forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, pending or not. If the leader is removed, the oldest member becomes the leader."""
        if (member := self.members.pop(member_id, None)) is not None:
            self._supported.subtract({protocol.name for protocol in member.protocols})
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
            if member.join is not None:
                self.waiting_to_join -= 1
            if member.session is not None:
                member.session.cancel()
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._forget_pending(member_id)
        self.pending_sync.discard(member_id)

    def _forget_pending(self, member_id: str) -> None:
        if (deadline := self.pending.pop(member_id, None)) is not None:
            deadline.cancel()

    def replace_static(self, instance_id: str, member_id: str) -> None:
        """Change only the member id of a returning static member."""
        old_id = self.static_members[instance_id]
        self.members[old_id].member_id = member_id
        # Rebuild the dict, so that the members keep their order.
        self.members = {other.member_id: other for other in self.members.values()}
        self.static_members[instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id

    def update(self, member: Member, protocols: Sequence[Protocol], rebalance_ms: int, session_ms: int) -> None:
        """Update a member that has joined again with other protocols or timeouts."""
        self._supported.subtract({protocol.name for protocol in member.protocols})
        member.protocols = tuple(protocols)
        self._supported.update({protocol.name for protocol in member.protocols})
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols could join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        member_count = len(self.members)
        return protocol_type == self.protocol_type and any(self._supported[name] == member_count for name in names)

    def select_protocol(self) -> str:
        """Return the protocol preferred by most members, among those that all members support."""
        member_count = len(self.members)
        candidates = {name for name, count in self._supported.items() if count == member_count}
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, in milliseconds."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        """Whether all members required for the next generation have joined."""
        return not self.pending and self.waiting_to_join == len(self.members)

    def park_join(self, member: Member, reply: Reply) -> None:
        """Store the JoinGroup of a member or a new client until the next generation."""
        if member.join is None:
            self.waiting_to_join += 1
        member.join = reply

    def answer_join(self, member: Member, response: Any) -> None:
        """Answer a member's waiting JoinGroup, if any."""
        if member.join is not None:
            self.waiting_to_join -= 1
            reply, member.join = member.join, None
            reply.answer(response)

    def elect_leader(self) -> bool:
        """Elect a leader among the joined members, unless the current leader has joined.

        Returns:
            False if no member has joined.
        """
        joined_ids = [member_id for member_id, member in self.members.items() if member.join is not None]
        if joined_ids and self.leader not in joined_ids:
            self.leader = joined_ids[0]
        return bool(joined_ids)

    def begin_generation(self) -> None:
        """Begin the next generation, for which all members have joined."""
        self.generation += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self._update_subscriptions()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY)

    def _update_subscriptions(self) -> None:
        self._subscribed_topics = None
        self._subscriptions = None
        if self.protocol_type == CONSUMER and (self.protocol_name is not None or not self.members):
            self._subscriptions = tuple(member.metadata(self.protocol_name) for member in self.members.values())

    def subscribed_topics(self) -> set[str] | None:
        """Return the topics to which the members of this generation subscribe, or None if the topics are unknown.

        The topics are unknown if the members are not consumers, or if a subscription cannot be decoded.
        """
        if self._subscriptions is not None:
            with suppress(DecodeError):
                subscriptions = [decode_versioned(ConsumerProtocolSubscription, data) for data in self._subscriptions]
                self._subscribed_topics = {topic for subscription in subscriptions for topic in subscription.topics}
            self._subscriptions = None
        return self._subscribed_topics

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return FENCED_INSTANCE_ID for a replaced static member, UNKNOWN_MEMBER_ID for a non-member, or NONE."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def validate_generation(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """Return NONE, an error of `validate_member`, or ILLEGAL_GENERATION for another generation."""
        code = self.validate_member(member_id, group_instance_id)
        return ErrorCode.ILLEGAL_GENERATION if not code and generation_id != self.generation else code

    def validate_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
        version: int = 0,  # noqa: ARG002 - modern groups use it
    ) -> ErrorCode:
        """Return NONE if a client can commit now, or an error (`validateOffsetCommit` and `doCommitOffsets`).

        Clients without a generation can commit while the group has no members. Transactional commits may lack a member
        id, because early versions of TxnOffsetCommit have no such field. They are also allowed during a rebalance.
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation_id >= 0 or member_id or group_instance_id is not None:
            if code := self.validate_generation(member_id, group_instance_id, generation_id):
                return code
        elif not is_transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        joining = self.state is GroupState.COMPLETING_REBALANCE and not is_transactional
        return ErrorCode.REBALANCE_IN_PROGRESS if joining else ErrorCode.NONE

    def note_activity(self, member_id: str) -> None:
        """Restart a member's session after a request that counts as a heartbeat."""
        member = self.members.get(member_id)
        if member is not None and member.session is not None:
            member.session.restart(member.session_timeout_ms)

    def settle(self, generation: int, protocol_type: str, members: Iterable[Member]) -> None:
        """Make the group STABLE with members that already have assignments. Their sessions are not started."""
        self.generation = generation
        self.protocol_type = protocol_type
        for member in members:
            self.add(member)
        self.protocol_name = self.select_protocol()
        self.state = GroupState.STABLE
        self._update_subscriptions()

    def restore(self, value: GroupMetadataValue) -> None:
        """Restore the group from its record. The sessions of the members are not started."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader = value.leader
        for entry in value.members:
            # Version 0 has no rebalance timeout, so the session timeout is used instead.
            rebalance_ms = entry.session_timeout if entry.rebalance_timeout == _NEVER else entry.rebalance_timeout
            self.add(
                Member(
                    entry.member_id,
                    entry.group_instance_id,
                    entry.client_id,
                    entry.client_host,
                    rebalance_ms,
                    entry.session_timeout,
                    (Protocol(value.protocol or "", bytes(entry.subscription)),),
                    bytes(entry.assignment),
                )
            )
        if self.leader not in self.members:
            self.leader = next(iter(self.members), None)
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        state_timestamp = value.current_state_timestamp
        self.state_timestamp_ms = None if state_timestamp == _NEVER else state_timestamp
        self._update_subscriptions()

    def to_value(self) -> GroupMetadataValue:
        """Return the record of the group's current state."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=_NEVER if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )
