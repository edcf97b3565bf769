"""Group members and committed offsets, shared by the checks of several stages."""

from dataclasses import dataclass, field
from typing import Any, Final

from minibroker_grade.subject import Subject, field_text
from minibroker_grade.wire import Wire
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)

GROUP: Final = 0
TRANSACTION: Final = 1
SESSION_MS: Final = 30000
STARTING_ERRORS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Errors from a coordinator that is not ready yet. Clients retry after these errors."""


def code_text(answer: Any) -> str:
    """Return the error code of a response with its name."""
    return field_text("error_code", answer.error_code)


def wait_for_coordinator(b: Subject, key: str, kind: int = GROUP) -> None:
    """Wait until the coordinator of a group or transactional id is available and has loaded its log."""
    request = FindCoordinatorRequest(key=key, key_type=kind)
    b.until(lambda: b.ask(request), lambda answer: answer.error_code not in STARTING_ERRORS, "a coordinator", code_text)
    if kind == GROUP:
        b.until(
            lambda: b.ask(HeartbeatRequest(group_id=key, generation_id=0, member_id="x")),
            lambda answer: answer.error_code not in STARTING_ERRORS,
            "a coordinator that has loaded its log",
            code_text,
        )


@dataclass(slots=True)
class Member:
    """A member of a classic-protocol group, with its own connection."""

    b: Subject
    group: str
    session: int = SESSION_MS
    instance: str | None = None
    member_id: str = ""
    generation: int = -1
    protocols: tuple[str, ...] = ("range",)
    wire: Wire = field(init=False)

    def __post_init__(self) -> None:
        self.wire = self.b.connect()

    def join_request(self) -> JoinGroupRequest:
        """Return a request to join or rejoin the group."""
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in self.protocols],
        )

    def send_join(self) -> None:
        """Send a JoinGroup request without waiting for the response."""
        self.wire.send(self.join_request(), self.b.newest(JoinGroupRequest))

    def receive_join(self) -> Any:
        """Return the response to the JoinGroup request, and store its member id and generation."""
        answer = self.wire.receive()
        if answer.member_id:
            self.member_id = answer.member_id
        if not answer.error_code:
            self.generation = answer.generation_id
        return answer

    def ask_to_join(self) -> Any:
        """Send a JoinGroup request and return its response."""
        self.send_join()
        return self.receive_join()

    def join(self) -> Any:
        """Join the group: get a member id from the coordinator, then repeat the request with it (KIP-394)."""
        answer = self.ask_to_join()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.ask_to_join()
        self.b.same(answer, "error_code", 0, "a member to work with")
        return answer

    def sync_request(self, **assignments: bytes) -> SyncGroupRequest:
        """Return a SyncGroup request. The leader passes the assignments by member id."""
        group_assignments = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=data) for member_id, data in assignments.items()
        ]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=group_assignments,
        )

    def sync(self, **assignments: bytes) -> Any:
        """Send a SyncGroup request and return its response."""
        return self.b.ask(self.sync_request(**assignments), wire=self.wire)

    def heartbeat(self, generation: int | None = None) -> Any:
        """Send a heartbeat and return its response."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return self.b.ask(request, wire=self.wire)

    def leave(self) -> Any:
        """Leave the group and return the response."""
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=[identity])
        return self.b.ask(request, wire=self.wire)

    def join_alone(self) -> "Member":
        """Join as the only member and sync, so that the group is stable."""
        self.join()
        self.b.same(self.sync(**{self.member_id: b"all"}), "error_code", 0, "a stable group to work with")
        return self


def new_group(b: Subject) -> str:
    """Return a new group id whose coordinator is ready."""
    name = b.name("group")
    wait_for_coordinator(b, name)
    return name


def commit_offset(
    b: Subject, group: str, topic: str, offset: int, member: str = "", generation: int = -1, text: str | None = ""
) -> Any:
    """Commit an offset for partition 0 and return the response."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=text)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return b.ask(request)


def fetch_committed(b: Subject, group: str, topic: str | None, *, stable: bool = False) -> Any:
    """Return the OffsetFetch response for partition 0, or for all committed offsets of the group."""
    topics = None if topic is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    return b.ask(request)
