"""The table of misbehaviours that a real Kafka cluster may show. docs/chaos-misbehaviours.md has it.

The module is long because it is one table.

Each row names the mechanism in Kafka that makes it legal. `act` does it at a point: it returns the fault that hits the
request, True if it did something else first and the request is served as usual, or False where it is not possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from minibroker.config.names import suggestion
from minibroker.server.faults.fault import Fault
from minibroker.server.requests.declarations import Target
from minibroker_chaos.steps import ChaosError
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_chaos import moves

if TYPE_CHECKING:
    from minibroker_chaos.situation import Held, Situation

Act = Callable[["Situation"], "Fault | bool"]
Evidence = Literal["provoked on Kafka", "read in source", "not shown"]

NETWORK, REBALANCES, FAILOVERS, TRANSACTIONS = "network", "rebalances", "failovers", "transactions"
DEFAULT, HEAVY = "default", "heavy"
PROFILES: Final = (DEFAULT, HEAVY, NETWORK, REBALANCES, FAILOVERS, TRANSACTIONS)

_ACKS_ALL: Final = -1
_GROUP_APIS: Final = frozenset({"JoinGroup", "SyncGroup", "OffsetFetch", "OffsetCommit", "ConsumerGroupHeartbeat"})
_TRANSACTION_APIS: Final = frozenset({"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"})
_COMMITS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit"})
_PROGRESS: Final = frozenset({"Fetch", "OffsetCommit", "ShareAcknowledge", "ShareFetch"})
_MAX_STALL_S: Final = 4.0
"""How long a request waits for other members of a group, which learn of a rebalance by their heartbeats."""
_MAX_STALL_ALONE_S: Final = 0.5
_TO_LEADER: Final = frozenset({"Produce", "Fetch"})


@dataclass(frozen=True, kw_only=True)
class Row:
    """A misbehaviour.

    Attributes:
        name: The name in words.
        ids: Its names in the research on Kafka's behavior, such as "P1".
        text: What a client sees.
        mechanism: The class of Kafka or the KIP that makes it legal.
        kept: What stays guaranteed.
        profiles: The profiles that have it.
        apis: The requests at whose points it can happen.
        act: What it does, or None if the broker always behaves so.
        weight: How likely it is at a point, compared to others.
        evidence: How it is known.
        brokers: The least number of brokers.
        is_optional: Whether it must be asked for with `only`.
        parameters: The range of each parameter of a step.
        milder: A weaker misbehaviour that shrinking tries instead.
        is_of_group: Whether it happens to the client's group, at whatever point.
    """

    name: str
    ids: str
    text: str
    mechanism: str
    kept: str
    profiles: frozenset[str] = frozenset()
    apis: frozenset[str] = frozenset()
    act: Act | None = None
    weight: float = 1.0
    evidence: Evidence = "read in source"
    brokers: int = 1
    is_optional: bool = False
    parameters: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    milder: str | None = None
    is_of_group: bool = False


@dataclass(frozen=True)
class FaultAct:
    """An act that is the fault of one request and needs nothing of the broker, so that a proxy can do it."""

    when: Callable[[Situation], bool] | None
    make: Callable[[Situation], Fault]

    def __call__(self, at: Situation) -> Fault | bool:
        """Return the fault, or False where it makes no sense."""
        return False if self.when is not None and not self.when(at) else self.make(at)


def _fault(when: Callable[[Situation], bool] | None = None, **fields: Any) -> Act:
    """Return an act that makes a fault. The parameters of a step are fields, too."""
    return FaultAct(when, lambda at: Fault.from_json({**fields, **at.parameters}))


def _refuse(error: str, when: Callable[[Situation], bool] | None = None, *, applied: bool | None = None) -> Act:
    """Return an act that refuses the partition of a point, or the whole request without one."""
    return FaultAct(
        when, lambda at: Fault(error=error, applied=applied, topic=at.target.topic, partition=at.target.partition)
    )


def _has_answer(at: Situation) -> bool:
    return getattr(at.request, "acks", _ACKS_ALL) != 0


def _has_coordinator(at: Situation) -> bool:
    """Return whether a coordinator serves the request. InitProducerId without a transactional id has none."""
    return at.target.group is not None or at.target.transactional_id is not None


def _stays(at: Situation) -> bool:
    """Return whether the member does not leave. A share member of librdkafka waits forever for the answer to that."""
    return getattr(at.request, "member_epoch", 0) >= 0


def _has_acks_all(at: Situation) -> bool:
    return bool(at.request.acks == _ACKS_ALL)


def _has_no_acks(at: Situation) -> bool:
    return not at.request.acks


def _is_transactional(at: Situation) -> bool:
    return at.request.transactional_id is not None


def _is_in_session(at: Situation) -> bool:
    return bool(at.request.session_id)


def _knows_epoch(at: Situation) -> bool:
    return bool(at.occasion.detail.current_leader_epoch >= 0)


def _follows_transaction(at: Situation) -> bool:
    """Return whether an earlier transaction of this producer may still be completing."""
    return at.chaos.points.transactions[at.target.transactional_id or ""] > 0


def _hide_leader(at: Situation) -> Fault | bool:
    topic = at.services.core.topics.get(at.target.topic or "")
    if topic is None:
        return False
    index = at.parameters["partition"] % len(topic.partitions)
    return Fault(api="Metadata", error="LEADER_NOT_AVAILABLE", topic=topic.name, partition=index)


def _move_leader(at: Situation) -> bool:
    target = at.target
    if target.topic is None or target.partition is None:
        return False
    return moves.move_leader(at.services, target.topic, target.partition, at.parameters["to"])


def _move_coordinator(at: Situation) -> bool:
    target = at.target
    return moves.move_coordinator(at.services, target.group, target.transactional_id, at.parameters["to"])


def _rebalance(at: Situation) -> bool:
    return moves.rebalance(at.services, at.group)


def _remove_member(at: Situation) -> bool:
    return moves.remove_member(at.services, at.group, getattr(at.request, "member_id", ""))


def _stall_member(at: Situation) -> Fault | bool:
    ids = moves.member_ids(at.services, at.group)
    if not ids or not _has_answer(at):
        return False
    member_id = getattr(at.request, "member_id", "") or ids[at.parameters["member"] % len(ids)]
    if not moves.remove_member(at.services, at.group, member_id):
        return False
    stalled = moves.StalledRequest(at.services, _MAX_STALL_S if len(ids) > 1 else _MAX_STALL_ALONE_S)
    at.chaos.hold(stalled, at, Target(group=at.group), stalled.limit_s)
    return stalled.fault


def _forget_producer(at: Situation) -> bool:
    return moves.forget_producer(at.services, at.target, at.occasion.detail.header.producer_id)


def _hold(make: Callable[[Situation], Held | None]) -> Act:
    """Return an act that holds what `make` returns until so many `requests` of the target were served."""

    def act(at: Situation) -> bool:
        held = make(at)
        if held is not None:
            at.chaos.hold(held, at, at.target)
        return held is not None

    return act


def _expire_transaction(at: Situation) -> bool:
    name = at.request.transactional_id
    return name is not None and at.services.transactions.expire(name)


def _hold_markers(at: Situation) -> Held | None:
    return moves.LaggingReplicas.at_markers(at.services, at.target.transactional_id, at.parameters["at"])


def _age_view(at: Situation) -> Held | None:
    view = None if at.chaos.old_view else moves.OldView.one_of(at.services, at.parameters["of"])
    if view is not None:
        _move_leader(at)
    return view


class _LostTail:
    """A leader that fails over to a lagging follower at its `end`. The new leader lags a while longer."""

    def __init__(self, at: Situation, lagging: moves.LaggingReplicas) -> None:
        self._at = at
        self._lagging = lagging

    @classmethod
    def of(cls, at: Situation) -> Self | None:
        lagging = moves.LaggingReplicas.of(at.services, at.target)
        return None if lagging is None else cls(at, lagging)

    def end(self) -> None:
        parameters = self._at.parameters
        try:
            self._lagging.fail_over(parameters["to"], parameters["lost"])
        finally:
            self._at.chaos.hold(self._lagging, self._at, self._at.target)


def _sets(*profiles: str) -> frozenset[str]:
    """Return the profiles of a row, with `heavy`, which has all of them."""
    return frozenset({HEAVY, *profiles})


ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="answer-lost",
        ids="P1, N2",
        text="The connection closes after the records were appended and before the answer arrives.",
        mechanism="SocketServer.Processor.processDisconnected only frees the channel, and rolls nothing back",
        kept="An idempotent retry gets the old offset.",
        profiles=_sets(DEFAULT, NETWORK, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_fault(disconnect="after"),
        weight=0.5,
    ),
    Row(
        name="request-lost",
        ids="P2, N2",
        text="The connection closes before the request is read. The client cannot tell it from answer-lost.",
        mechanism="SocketServer closes a connection with unread bytes, such as at a shutdown",
        kept="Nothing was applied.",
        profiles=_sets(DEFAULT, NETWORK, FAILOVERS),
        apis=frozenset({"Produce", *_COMMITS, "EndTxn", "AddOffsetsToTxn", "AddPartitionsToTxn"}),
        act=_fault(disconnect="before"),
        weight=0.3,
    ),
    Row(
        name="request-late",
        ids="P3",
        text="The connection closes, and the records are appended later, perhaps after the client's retry.",
        mechanism="KafkaRequestHandler applies queued requests even if their connection has died",
        kept="Requests of one connection stay in order. Batches of an idempotent producer cannot pass each other.",
        profiles=_sets(DEFAULT, NETWORK),
        apis=frozenset({"Produce"}),
        act=_fault(_has_answer),
        weight=0.3,
        parameters={"late": (1, 4)},
        milder="request-lost",
    ),
    Row(
        name="not-leader",
        ids="P4, P15",
        text="NOT_LEADER_OR_FOLLOWER for one partition, although the metadata names this broker.",
        mechanism="Partition.appendRecordsToLeader and readRecords, before the broker has become the leader again",
        kept="Nothing was appended.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=_TO_LEADER,
        act=_refuse("NOT_LEADER_OR_FOLLOWER"),
        weight=0.3,
    ),
    Row(
        name="not-leader-after-append",
        ids="P5",
        text="NOT_LEADER_OR_FOLLOWER, although the records are in the log.",
        mechanism="Partition.checkEnoughReplicasReachOffset, if the leadership moves while a request waits",
        kept="The records are in the log once.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_refuse("NOT_LEADER_OR_FOLLOWER", _has_acks_all, applied=True),
        weight=0.3,
        milder="not-leader",
    ),
    Row(
        name="too-few-replicas",
        ids="P6",
        text="NOT_ENOUGH_REPLICAS for acks=all.",
        mechanism="Partition.appendRecordsToLeader, while fewer replicas are in sync than min.insync.replicas",
        kept="Nothing was appended.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_refuse("NOT_ENOUGH_REPLICAS", _has_acks_all),
        weight=0.3,
        brokers=2,
        evidence="provoked on Kafka",
    ),
    Row(
        name="too-few-replicas-after-append",
        ids="P7",
        text="NOT_ENOUGH_REPLICAS_AFTER_APPEND, although the records are in the log and visible.",
        mechanism="Partition.checkEnoughReplicasReachOffset, when the ISR shrinks before the answer",
        kept="This error alone does not lose the records.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_refuse("NOT_ENOUGH_REPLICAS_AFTER_APPEND", _has_acks_all, applied=True),
        weight=0.3,
        brokers=2,
        milder="too-few-replicas",
    ),
    Row(
        name="append-timed-out",
        ids="P8",
        text="REQUEST_TIMED_OUT, although the records are in the log.",
        mechanism="DelayedProduce sets the error when it begins to wait, and its expiry removes no records",
        kept="The records stay.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_refuse("REQUEST_TIMED_OUT", _has_acks_all, applied=True),
        weight=0.3,
        brokers=2,
    ),
    Row(
        name="unanswered-append-failed",
        ids="P14",
        text="The connection closes at a request with acks=0, whose records are not appended.",
        mechanism="KafkaApis.handleProduceRequest closes the connection if a partition of such a request has an error",
        kept="Nothing: acks=0 asks for no guarantee.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_fault(_has_no_acks, disconnect="before"),
        weight=0.3,
        evidence="provoked on Kafka",
    ),
    Row(
        name="verification-refused",
        ids="P17",
        text="NOT_ENOUGH_REPLICAS for a batch of a transaction, although all replicas are in sync.",
        mechanism="ReplicaManager.handleProduceAppend turns the coordinator's errors into this one (KIP-890, 3.6)",
        kept="Nothing was appended.",
        profiles=_sets(DEFAULT, TRANSACTIONS),
        apis=frozenset({"Produce"}),
        act=_refuse("NOT_ENOUGH_REPLICAS", _is_transactional),
        weight=0.5,
    ),
    Row(
        name="storage-error",
        ids="P18",
        text="KAFKA_STORAGE_ERROR for one partition.",
        mechanism="ReplicaManager, when a log directory fails: the replica goes offline and the leader moves",
        kept="Nothing was appended.",
        profiles=_sets(FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_refuse("KAFKA_STORAGE_ERROR"),
        weight=0.2,
        brokers=2,
        milder="not-leader",
    ),
    Row(
        name="high-watermark-behind",
        ids="P8, F6",
        text="The high watermark stands still: new records are not visible yet, and requests with acks=all wait.",
        mechanism="Partition.maybeIncrementLeaderHW, until the followers in the ISR have fetched (DelayedProduce)",
        kept="The records become visible in order.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=_TO_LEADER,
        act=_hold(lambda at: moves.LaggingReplicas.of(at.services, at.target)),
        weight=0.1,
        brokers=2,
        parameters={"requests": (1, 8)},
    ),
    Row(
        name="replicas-out-of-sync",
        ids="P6",
        text=(
            "Only the leader is in the ISR. acks=all gets NOT_ENOUGH_REPLICAS. Records with acks=1 are not visible yet."
        ),
        mechanism="Partition.maybeShrinkIsr; below min.insync.replicas the high watermark stands still (KAFKA-15583)",
        kept="Refused records are not appended.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_hold(lambda at: moves.LaggingReplicas.of(at.services, at.target, out_of_sync=True)),
        weight=0.1,
        brokers=2,
        parameters={"requests": (1, 8)},
        milder="too-few-replicas",
        evidence="provoked on Kafka",
    ),
    Row(
        name="unreplicated-records-lost",
        ids="P5, P11, F7",
        text=(
            "The leader fails, and records with acks=0 or 1 vanish. "
            "At first, ListOffsets gets OFFSET_NOT_AVAILABLE for the end."
        ),
        mechanism="The new leader's log is shorter (KIP-101, KIP-279). It learns the high watermark later (KIP-207)",
        kept=(
            "Everything below the high watermark: "
            "records that were confirmed with acks=all, and records that were read."
        ),
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_hold(_LostTail.of),
        weight=0.1,
        brokers=2,
        parameters={"requests": (1, 6), "to": (0, 1), "lost": (0, 3)},
        milder="leader-moved",
    ),
    Row(
        name="producer-forgotten",
        ids="P10",
        text="The broker forgets a producer after a day (by its records' timestamps), so it appends a retry again.",
        mechanism="ProducerStateManager.isProducerExpired (KIP-360, KIP-854)",
        kept="Producers with an open transaction are not forgotten.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Produce"}),
        act=_forget_producer,
        weight=0.2,
    ),
    Row(
        name="leader-moved",
        ids="P4, P5, F8, M7, S2",
        text=(
            "Another replica becomes the leader, in a new epoch. Requests to the old leader get NOT_LEADER_OR_FOLLOWER."
        ),
        mechanism="ReplicationControlManager elects the leader; each broker applies the change independently",
        kept="Everything below the high watermark.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=_TO_LEADER | {"ShareFetch", "ShareAcknowledge"},
        act=_move_leader,
        weight=0.2,
        brokers=2,
        parameters={"to": (0, 1)},
        milder="not-leader",
        evidence="provoked on Kafka",
    ),
    Row(
        name="broker-bounced",
        ids="M3, N2, N6, F9",
        text=(
            "A broker closes all connections, leads no partition, and is missing from the metadata until it comes back."
        ),
        mechanism="A rolling restart: the controlled shutdown moves the leadership of its partitions",
        kept="Everything below the high watermark.",
        profiles=_sets(FAILOVERS),
        apis=_TO_LEADER | _COMMITS,
        act=_hold(lambda at: moves.StoppedBroker.one_of(at.services, at.parameters["to"])),
        weight=0.05,
        brokers=3,
        parameters={"to": (0, 2), "requests": (2, 10)},
        milder="leader-moved",
        evidence="provoked on Kafka",
    ),
    Row(
        name="duplicate-recognized",
        ids="P9",
        text="A retry of one of the last five batches gets the old offset.",
        mechanism="ProducerStateEntry.findDuplicateBatch",
        kept="One copy.",
        evidence="provoked on Kafka",
    ),
    Row(
        name="empty-fetch",
        ids="F1",
        text="A Fetch response without records, although there are records.",
        mechanism="DelayedFetch is completed by any event, such as a change of the leader",
        kept="The next fetch gets them.",
        profiles=_sets(DEFAULT, NETWORK),
        apis=frozenset({"Fetch"}),
        act=_fault(api="Fetch", fetch_bytes=0),
        weight=0.1,
    ),
    Row(
        name="small-fetch",
        ids="F2",
        text="A Fetch response with a single batch, from one partition.",
        mechanism="ReplicaManager.readFromLog: only the first partition with records may exceed the limits (KIP-74)",
        kept="The order within the partition.",
        profiles=_sets(DEFAULT, NETWORK),
        apis=frozenset({"Fetch"}),
        act=_fault(api="Fetch", fetch_bytes=1),
        weight=0.1,
    ),
    Row(
        name="first-batch-early",
        ids="F3",
        text="The first batch begins below the requested offset.",
        mechanism="LocalLog.read: batches are sent whole",
        kept="Offsets rise.",
        evidence="provoked on Kafka",
    ),
    Row(
        name="fetch-session-gone",
        ids="F9",
        text="FETCH_SESSION_ID_NOT_FOUND.",
        mechanism="FetchSessionCache.tryEvict (KIP-227), or a restart of the broker",
        kept="No record is skipped.",
        profiles=_sets(DEFAULT, NETWORK, FAILOVERS),
        apis=frozenset({"Fetch"}),
        act=_fault(_is_in_session, error="FETCH_SESSION_ID_NOT_FOUND"),
        weight=0.2,
        evidence="provoked on Kafka",
    ),
    Row(
        name="leader-epoch-unknown",
        ids="F8",
        text="UNKNOWN_LEADER_EPOCH: the client knows the new leader epoch before the broker does.",
        mechanism="Partition.checkCurrentLeaderEpoch (KIP-320)",
        kept="No record is skipped.",
        profiles=_sets(DEFAULT, FAILOVERS),
        apis=frozenset({"Fetch"}),
        act=_refuse("UNKNOWN_LEADER_EPOCH", _knows_epoch),
        weight=0.2,
        brokers=2,
        evidence="provoked on Kafka",
    ),
    Row(
        name="offset-gaps",
        ids="F13, F17",
        text="Offsets have gaps, because markers, aborted records and compacted records have offsets, too.",
        mechanism="Control batches, LogCleaner",
        kept="Offsets rise.",
        evidence="provoked on Kafka",
    ),
    Row(
        name="fetch-connection-closed",
        ids="N1",
        text="The connection closes at a fetch.",
        mechanism="Selector.maybeCloseOldestConnection (connections.max.idle.ms), or a restart of the broker",
        kept="No record is skipped.",
        profiles=_sets(DEFAULT, NETWORK),
        apis=frozenset({"Fetch", "ShareFetch"}),
        act=_fault(disconnect="before"),
        weight=0.1,
    ),
    Row(
        name="answer-late",
        ids="N4",
        text="The answer is late.",
        mechanism="A busy broker or network",
        kept="The order of the answers on a connection.",
        profiles=_sets(DEFAULT, NETWORK),
        apis=frozenset({"Produce", "Fetch", *_COMMITS, *_TRANSACTION_APIS, "JoinGroup", "SyncGroup"}),
        act=_fault(),
        weight=0.2,
        parameters={"delay_ms": (5, 60)},
    ),
    Row(
        name="throttled",
        ids="N3",
        text="The answer has a throttle time. During this time, the broker reads nothing from the connection.",
        mechanism="Quotas: the answer comes first, then the connection is muted (KIP-219)",
        kept="Requests are kept, not refused.",
        profiles=_sets(DEFAULT, NETWORK),
        apis=frozenset({"Produce", "Fetch"}),
        act=_fault(_has_answer),
        weight=0.1,
        parameters={"throttle_ms": (5, 60)},
        milder="answer-late",
    ),
    Row(
        name="black-hole",
        ids="N5",
        text="The connection stays open, but no more answers arrive.",
        mechanism="A half-open TCP connection, or a stopped process",
        kept="The request was not applied.",
        profiles=frozenset(),
        apis=frozenset({"Produce", "Fetch", *_COMMITS, "Heartbeat", "EndTxn"}),
        act=_fault(black_hole=True),
        evidence="not shown",
        is_optional=True,
        milder="request-lost",
    ),
    Row(
        name="commit-answer-lost",
        ids="G5",
        text="The connection closes after offsets were committed and before the answer arrives.",
        mechanism="As answer-lost",
        kept="The commit holds.",
        profiles=_sets(DEFAULT, NETWORK, REBALANCES),
        apis=_COMMITS,
        act=_fault(disconnect="after"),
        weight=0.3,
        evidence="provoked on Kafka",
    ),
    Row(
        name="commit-failed-but-applied",
        ids="G6",
        text="COORDINATOR_NOT_AVAILABLE for a commit, although the commit is applied.",
        mechanism="CoordinatorRuntime: the event times out after offset.commit.timeout.ms, but its record stays",
        kept="The commit holds.",
        profiles=_sets(DEFAULT, REBALANCES, FAILOVERS),
        apis=frozenset({"OffsetCommit"}),
        act=_fault(error="COORDINATOR_NOT_AVAILABLE", applied=True),
        weight=0.2,
        milder="commit-answer-lost",
    ),
    Row(
        name="commit-late",
        ids="G8, P3",
        text="The connection closes, and the commit is applied later: the offset may go back.",
        mechanism="OffsetMetadataManager.replay does not compare offsets, and queued requests are applied",
        kept="The commit is applied only while its generation lasts.",
        profiles=_sets(REBALANCES),
        apis=frozenset({"OffsetCommit"}),
        act=_fault(),
        weight=0.2,
        parameters={"late": (1, 4)},
        milder="commit-answer-lost",
    ),
    Row(
        name="join-answer-lost",
        ids="G13",
        text="The connection closes after the group knows the member's new state.",
        mechanism="GroupMetadataManager keeps the member until its session ends",
        kept="One owner for each partition.",
        profiles=_sets(REBALANCES),
        apis=frozenset({"SyncGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat"}),
        act=_fault(_stays, disconnect="after"),
        weight=2,
    ),
    Row(
        name="coordinator-loading",
        ids="G4",
        text="COORDINATOR_LOAD_IN_PROGRESS: the broker has just become the coordinator.",
        mechanism="CoordinatorRuntime, and TransactionStateManager, while they read their partition",
        kept="Generation, members and answered commits.",
        profiles=_sets(DEFAULT, REBALANCES, FAILOVERS, TRANSACTIONS),
        # Clients do not expect it for SyncGroup. The coordinator of Kafka 3 answers REBALANCE_IN_PROGRESS there.
        apis=_GROUP_APIS - {"SyncGroup"} | _TRANSACTION_APIS | _COMMITS,
        act=_fault(_has_coordinator, error="COORDINATOR_LOAD_IN_PROGRESS"),
        weight=0.3,
    ),
    Row(
        name="not-coordinator",
        ids="G4, T4",
        text="NOT_COORDINATOR, although FindCoordinator names this broker.",
        mechanism="CoordinatorRuntime, before the broker has become the leader of the coordinator's partition",
        kept="Generation, members and answered commits.",
        profiles=_sets(DEFAULT, REBALANCES, FAILOVERS, TRANSACTIONS),
        apis=_GROUP_APIS - {"OffsetFetch"} | _TRANSACTION_APIS | _COMMITS,  # librdkafka does not ask again there
        act=_fault(_has_coordinator, error="NOT_COORDINATOR"),
        weight=0.3,
    ),
    Row(
        name="coordinator-unavailable",
        ids="G4",
        text="COORDINATOR_NOT_AVAILABLE for FindCoordinator: the coordinator's partition has no leader.",
        mechanism="KafkaApis.handleFindCoordinatorRequest",
        kept="Generation, members and answered commits.",
        profiles=_sets(DEFAULT, REBALANCES, FAILOVERS, TRANSACTIONS),
        apis=frozenset({"FindCoordinator"}),
        act=_fault(error="COORDINATOR_NOT_AVAILABLE"),
        weight=2,
    ),
    Row(
        name="coordinator-moved",
        ids="G4, T4",
        text="Another broker becomes the coordinator. The old coordinator answers NOT_COORDINATOR.",
        mechanism="CoordinatorRuntime and TransactionStateManager load the records of the old coordinator",
        kept="Generation, members, answered commits, decided transactions.",
        profiles=_sets(DEFAULT, REBALANCES, FAILOVERS, TRANSACTIONS),
        apis=_TRANSACTION_APIS | _COMMITS,
        act=_move_coordinator,
        weight=0.2,
        brokers=2,
        parameters={"to": (0, 1)},
        milder="not-coordinator",
    ),
    Row(
        name="rebalance",
        ids="G1, K6",
        text="The group rebalances, as if a member had joined and left.",
        mechanism="GroupMetadataManager: REBALANCE_IN_PROGRESS for a heartbeat, or a new target assignment",
        kept="One owner for each partition in a generation.",
        profiles=_sets(DEFAULT, REBALANCES),
        apis=_PROGRESS,
        act=_rebalance,
        is_of_group=True,
        weight=0.3,
        evidence="provoked on Kafka",
    ),
    Row(
        name="member-removed",
        ids="G2, K1, K5",
        text="UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH: the member has lost its partitions.",
        mechanism="The member's session is over, or an operator has removed the member (KIP-571)",
        kept="Commits of the removed member are refused.",
        profiles=_sets(DEFAULT, REBALANCES),
        apis=frozenset({"OffsetCommit", "Heartbeat", "ConsumerGroupHeartbeat"}),
        act=_remove_member,
        is_of_group=True,
        weight=0.2,
        milder="rebalance",
        evidence="provoked on Kafka",
    ),
    Row(
        name="member-stalled",
        ids="G2, N4",
        text="A request is served late, and a member has lost its partitions by then.",
        mechanism="A process or its network stands still for longer than the session",
        kept="Commits of the removed member are refused.",
        profiles=_sets(REBALANCES, TRANSACTIONS),
        apis=frozenset({"Produce", "AddOffsetsToTxn", "AddPartitionsToTxn", "TxnOffsetCommit"}),
        act=_stall_member,
        is_of_group=True,
        weight=0.3,
        parameters={"member": (0, 3), "requests": (4, 12)},
        milder="rebalance",
    ),
    Row(
        name="commit-of-unowned-partition",
        ids="G9, G10, T10",
        text="The broker accepts a commit of partitions that the member does not own, or a commit without a member.",
        mechanism="ClassicGroup.validateOffsetCommit checks only group, member and generation",
        kept="Commits of other generations are refused.",
        evidence="provoked on Kafka",
    ),
    Row(
        name="commit-while-rebalancing",
        ids="G7",
        text="A commit is accepted while members join, but refused once the new generation has begun.",
        mechanism="ClassicGroup.validateOffsetCommit",
        kept="No commit of an old generation is accepted after the new generation has begun.",
        evidence="provoked on Kafka",
    ),
    Row(
        name="acknowledgement-answer-lost",
        ids="S3",
        text="The connection closes after records of a share group were acknowledged.",
        mechanism="SharePartition.acknowledge has already written its state",
        kept="The acknowledgement holds.",
        profiles=_sets(DEFAULT, NETWORK, REBALANCES),
        apis=frozenset({"ShareAcknowledge"}),
        act=_fault(disconnect="after"),
        weight=0.3,
    ),
    Row(
        name="record-given-up",
        ids="S5, S6",
        text="A share group gives up a record after five deliveries, and does not keep the order.",
        mechanism="InFlightState.tryUpdateState",
        kept="The other records are still delivered.",
    ),
    Row(
        name="no-leader",
        ids="M2",
        text="LEADER_NOT_AVAILABLE for a partition in the metadata.",
        mechanism="KRaftMetadataCache.getPartitionMetadata, between two leaders",
        kept="The next leader has everything below the high watermark.",
        profiles=_sets(FAILOVERS),
        apis=frozenset({"Metadata"}),
        act=_hide_leader,
        weight=1,
        brokers=2,
        parameters={"partition": (0, 3)},
        evidence="provoked on Kafka",
    ),
    Row(
        name="old-metadata",
        ids="M1",
        text="The leader moves, but one broker's metadata stays as before.",
        mechanism="KRaftMetadataCache: each broker publishes the metadata log independently",
        kept="A broker's metadata is never older than in its earlier answers.",
        profiles=_sets(FAILOVERS),
        apis=_TO_LEADER,
        act=_hold(_age_view),
        weight=0.1,
        brokers=2,
        parameters={"requests": (1, 6), "of": (0, 2), "to": (0, 1)},
        milder="leader-moved",
    ),
    Row(
        name="topic-not-known-yet",
        ids="M4",
        text="UNKNOWN_TOPIC_OR_PARTITION in one broker's metadata for a topic that was just created.",
        mechanism="The controller answers before all brokers have read its log",
        kept="In the end every broker knows the topic.",
        profiles=_sets(FAILOVERS),
        apis=frozenset({"CreateTopics"}),
        act=_hold(_age_view),
        brokers=2,
        parameters={"requests": (1, 6), "of": (0, 2), "to": (0, 1)},
    ),
    Row(
        name="markers-late",
        ids="T1, T2, T12, F11, G15",
        text="EndTxn is answered, but read_committed and OffsetFetch (UNSTABLE_OFFSET_COMMIT) do not show the end yet.",
        mechanism="TransactionCoordinator.endTransaction answers before addTxnMarkersToSend",
        kept="The answered outcome stays. Until the end shows, the next transaction gets CONCURRENT_TRANSACTIONS.",
        profiles=_sets(DEFAULT, TRANSACTIONS),
        apis=frozenset({"EndTxn"}),
        act=_hold(_hold_markers),
        weight=1,
        brokers=2,
        parameters={"requests": (1, 6), "at": (0, 3)},
        milder="transaction-still-completing",
    ),
    Row(
        name="transaction-still-completing",
        ids="T1",
        text="CONCURRENT_TRANSACTIONS: not all markers of the last transaction are written yet.",
        mechanism="TransactionCoordinator, in the states PrepareCommit and PrepareAbort",
        kept="The last transaction completes.",
        profiles=_sets(DEFAULT, TRANSACTIONS),
        apis=frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn", "InitProducerId"}),
        act=_fault(_follows_transaction, error="CONCURRENT_TRANSACTIONS"),
        weight=2,
    ),
    Row(
        name="transaction-timed-out",
        ids="T5",
        text="The transaction is aborted: INVALID_PRODUCER_EPOCH for Produce, PRODUCER_FENCED for EndTxn.",
        mechanism="TransactionCoordinator.abortTimedOutTransactions (KIP-588), after a jump of the broker's clock",
        kept="Nothing of the transaction becomes visible.",
        apis=frozenset({"Produce", "TxnOffsetCommit", "EndTxn"}),
        act=_expire_transaction,
        is_optional=True,
    ),
    Row(
        name="transaction-answer-lost",
        ids="T3",
        text="The connection closes after the coordinator has decided.",
        mechanism="TransactionCoordinator.endTransaction recognizes the retry",
        kept="The transaction is either committed or aborted, and stays so.",
        profiles=_sets(DEFAULT, NETWORK, TRANSACTIONS),
        apis=_TRANSACTION_APIS,
        act=_fault(disconnect="after"),
        weight=1,
    ),
)
"""The order has no meaning."""


def find_row(name: str) -> Row:
    """Return a row by its name.

    Raises:
        ChaosError: There is no such row; the message names a similar one.
    """
    for row in ROWS:
        if row.name == name:
            return row
    hint = suggestion(name, [row.name for row in ROWS]) or "; docs/chaos-misbehaviours.md lists them"
    raise ChaosError(f"there is no misbehaviour {name!r}{hint}")


def rows_of(profile: str, only: Collection[str] = (), without: Collection[str] = ()) -> list[Row]:
    """Return the rows of a profile, or `only` some rows of the table, `without` others.

    Raises:
        ChaosError: A name is unknown.
    """
    if profile not in PROFILES:
        raise ChaosError(f"profile: there is no {profile!r}; there are {', '.join(PROFILES)}")
    rows = [find_row(name) for name in only] or [row for row in ROWS if profile in row.profiles]
    left_out = {find_row(name).name for name in without}
    return [row for row in rows if row.name not in left_out]
