"""The engine: runs a schedule of misbehaviours on a broker, with the broker's own faults and with `moves`."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from minibroker.server.faults.fault import Fault
from minibroker.server.faults.registry import faults_of
from minibroker.server.inspection.recording import recording_of
from minibroker_chaos.check.facts import facts_of
from minibroker_chaos.check.invariants import find_broker_violations
from minibroker_chaos.decisions import Schedule, SeededSchedule, StoredSchedule
from minibroker_chaos.points import Points
from minibroker_chaos.rows import ROWS, Row, rows_of
from minibroker_chaos.steps import DEFAULT_PROFILE, VERSION, ChaosError, Step
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_chaos import moves

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from minibroker.server.faults.fault import RequestContext
    from minibroker.server.inspection.recording import RecordedRequest
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.declarations import Target
    from minibroker.server.services import Services
    from minibroker_chaos.points import Occasion

_CLOSING: Final = frozenset({"disconnect", "late", "black_hole"})
_MAX_CLOSINGS: Final = 3
"""The closed connections per client id in a run. After more of them clients wait for many seconds to connect again."""
_MAX_HOLD_S: Final = 0.2
_REACTION_REQUESTS: Final = 12
"""The requests of a client after a step that count as its reaction."""
_DATA_REACTIONS: Final = {
    "InitProducerId": "got a new producer id or epoch",
    "ListOffsets": "looked for offsets",
    "OffsetForLeaderEpoch": "checked its position",
    "Metadata": "refreshed its metadata",
}
_COORDINATOR_REACTIONS: Final = {
    "JoinGroup": "joined its group again",
    "LeaveGroup": "left its group",
    "FindCoordinator": "looked for its coordinator",
    "InitProducerId": "got a new producer id or epoch",
}
"""What the next requests of a client say, after a misbehaviour at a partition, a group or a transaction."""
_DATA_APIS: Final = frozenset({"Produce", "Fetch", "ShareFetch", "ShareAcknowledge"})
_AT_START: Final = frozenset(
    {"Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "InitProducerId"}
)


class Held(Protocol):
    """Something that an action holds until `end` is called."""

    def end(self) -> None:
        """Release what is held."""
        ...


class Situation(NamedTuple):
    """What a row acts on: an occasion, with the request at hand.

    Attributes:
        chaos: The engine.
        occasion: The point and its target.
        request: The request.
        call: Its context.
        client_id: The client id, or None.
        step: The step that happens if the row acts.
    """

    chaos: Chaos
    occasion: Occasion
    request: Any
    call: Call
    client_id: str | None
    step: Step

    @property
    def parameters(self) -> dict[str, int]:
        """The strength of the misbehaviour."""
        return self.step.parameters

    @property
    def target(self) -> Target:
        """The partition, group or transactional id."""
        return self.occasion.target

    @property
    def services(self) -> Services:
        """The services of the broker."""
        return self.call.services

    @property
    def group(self) -> str | None:
        """The group of the request, the one that the client was seen to join, or the only one."""
        groups = self.chaos.points.groups
        only = set(groups.values())
        return self.target.group or groups.get(self.client_id or "") or (only.pop() if len(only) == 1 else None)


@dataclass
class _Watch:
    """A step whose reaction is still awaited."""

    step: Step
    context: RequestContext
    target: Target
    known: frozenset[object]
    fault: Fault | None
    left: int = _REACTION_REQUESTS
    seen: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def is_action(self) -> bool:
        """Whether the step has no fault, so that other clients may feel it."""
        return self.fault is None

    @property
    def is_closing(self) -> bool:
        """Whether the step may have closed the connection."""
        return self.fault is None or self.fault.action in _CLOSING

    @property
    def is_refusal(self) -> bool:
        """Whether the client must react. It need not react to what is late or small."""
        return self.is_closing or (self.fault is not None and self.fault.error is not None)


@dataclass(eq=False)
class _Hold:
    """Something held until a number of requests for a target have been served, or until a timer fires."""

    held: Held
    step: Step
    target: Target
    left: int
    timer: asyncio.TimerHandle = field(init=False)


class Chaos:
    """Chaos on a running broker, from `start` to `stop`. All methods run on the broker's event loop.

    Args:
        services: The services of the broker.
        seed: The seed of the decisions.
        profile: A name of `PROFILES`.
        only: The only misbehaviours to use, by name or by id, including those that must be asked for.
        without: The misbehaviours to leave out, by name or by id.
        steps: The steps to repeat, instead of decisions from a seed.

    Attributes:
        steps: What has happened.
        violations: What the broker did wrong by the time of the last `settle`. It voids the run.
        points: The names of the run's points.
        outlived: The client ids of connections that are older than the run.

    Raises:
        ChaosError: An argument is invalid, or there is neither a seed nor steps.
    """

    def __init__(
        self,
        services: Services,
        seed: int | None = None,
        *,
        profile: str = DEFAULT_PROFILE,
        only: Collection[str] = (),
        without: Collection[str] = (),
        steps: Sequence[Step] | None = None,
    ) -> None:
        if (seed is None) == (steps is None):
            raise ChaosError("seed: chaos needs either a seed or steps")
        self._services = services
        self.seed = seed
        self.profile = profile
        self._given = steps
        rows = ROWS if steps is not None else rows_of(profile, only, without)
        self._brokers = len(services.core.cluster.nodes)
        self._rows = [row for row in rows if row.act is not None and row.brokers <= self._brokers]
        if steps is not None:
            known = {row.name: row.parameters.keys() for row in ROWS}
            for step in steps:
                if known.get(step.row) != step.parameters.keys():
                    given = ", ".join(step.parameters) or "none"
                    raise ChaosError(f"steps: there is no misbehaviour {step.row!r} with these parameters: {given}")
        self._is_quiet = True
        self._begin()

    def _begin(self) -> None:
        self.steps: list[Step] = []
        self.violations: list[str] = []
        self.points = Points()
        self._schedule: Schedule = (
            SeededSchedule(self.seed or 0, self._rows) if self._given is None else StoredSchedule(self._given)
        )
        self._by_api: dict[str, list[Row]] = {}
        for row in self._rows:
            for api in row.apis:
                self._by_api.setdefault(api, []).append(row)
        self._happened: Counter[str] = Counter()
        self._closings: Counter[str | None] = Counter()
        self._watches: list[_Watch] = []
        self._holds: list[_Hold] = []
        self._unstarted: dict[tuple[int, Target], Step] = {}
        self._connections: dict[str | None, set[object]] = {}
        self._number = 0
        self._began_after = recording_of(self._services).last_number
        self.outlived: set[str] = set()

    def start(self) -> None:
        """Begin to misbehave, and to keep what the broker is judged by.

        Raises:
            ChaosError: The broker is under chaos already.
        """
        if self._services.chaos is not None:
            raise ChaosError("this broker is under chaos already")
        facts_of(self._services)
        self._services.chaos = self
        self._is_quiet = False
        faults_of(self._services).advisor = self._advise

    def restart(self) -> None:
        """Forget the run so far, for a test that begins with an empty broker."""
        self._end_all()
        self._begin()
        self._is_quiet = False

    def settle(self) -> None:
        """End all that is held, apply late requests, and misbehave no more: the quiet phase.

        The broker is then held against what no Kafka cluster does.
        """
        self._end_all()
        self.violations = find_broker_violations(self._services)

    def _end_all(self) -> None:
        self._is_quiet = True
        self._unstarted.clear()
        while self._holds:
            self._end_hold(self._holds[-1])
        faults_of(self._services).settle()

    def stop(self) -> None:
        """Settle, and leave the broker as it was."""
        try:
            self.settle()
        finally:
            faults_of(self._services).advisor = None
            self._services.chaos = None

    @property
    def is_felt(self) -> bool:
        """Whether a client has reacted to a step."""
        return any(step.is_felt for step in self.steps)

    @property
    def met(self) -> tuple[int, int, int]:
        """The numbers of steps to repeat that happened exactly, at a later attempt, and not at all."""
        schedule = self._schedule
        return (schedule.exact, schedule.near, schedule.missed) if isinstance(schedule, StoredSchedule) else (0, 0, 0)

    @property
    def cluster(self) -> str:
        """The cluster that the broker pretends to be, in words."""
        if self._brokers == 1:
            return "1 broker"
        config = self._services.core.config
        replicas, in_sync = (config.integer(key) for key in ("default.replication.factor", "min.insync.replicas"))
        return f"{self._brokers} brokers, replication factor {replicas}, min.insync.replicas {in_sync}"

    def report(self) -> list[str]:
        """Return the run in words: its seed, its steps, and whether clients felt them."""
        source = f"seed {self.seed}, profile {self.profile}" if self.seed is not None else "stored steps"
        lines = [f"chaos {VERSION}: {source}, {self.cluster}", *map(str, self.steps)]
        if self._given is not None:
            exact, near, missed = self.met
            lines.append(f"repeated: {exact} exactly, {near} at a later attempt, {missed} not met")
        bug = "void, because of a bug of minibroker; please report it with the seed"
        lines += [f"{bug}: {violation}" for violation in self.violations]
        if not self.is_felt:
            lines.append("not exercised: no client reacted to a misbehaviour")
        if self.outlived:
            lines.append(f"connected before the run: {', '.join(sorted(self.outlived))}")
        return lines

    def hold(self, held: Held, at: Situation) -> None:
        """Hold something until as many requests of the target were served as the step says, at most for a time.

        The limit is real time, because a client may be waiting for exactly this.
        """
        hold = _Hold(held, at.step, at.target, at.parameters["requests"])
        hold.timer = asyncio.get_running_loop().call_later(_MAX_HOLD_S, self._end_hold, hold)
        self._holds.append(hold)

    @property
    def old_view(self) -> tuple[moves.OldView, Step] | None:
        """The broker whose metadata is frozen, and the step that did it, or None."""
        held = ((hold.held, hold.step) for hold in self._holds)
        return next(((view, step) for view, step in held if isinstance(view, moves.OldView)), None)

    def _end_hold(self, hold: _Hold) -> None:
        self._holds.remove(hold)
        hold.timer.cancel()
        hold.held.end()

    def _advise(self, context: RequestContext, request: Any, call: Call, entry: RecordedRequest) -> Fault | None:
        """Return the fault that hits a request, or None. See `FaultRegistry.advisor`."""
        fault = self._decide(context, request, call, entry)
        if fault is None and context.api == "Metadata" and (old := self.old_view) and old[0].node_id == context.node:
            fault = old[0].fault
            entry.chaos = old[1]
        return fault

    def _decide(self, context: RequestContext, request: Any, call: Call, entry: RecordedRequest) -> Fault | None:
        self._number += 1
        if entry.opened_after < self._began_after:
            self.outlived.add(context.client_id or "a client without an id")
        self._count_down(context)
        is_over = self._is_quiet or self._schedule.is_over
        if request is None or (is_over and not self._watches and not self._unstarted):
            return None
        occasions = list(self.points.of(context, request))
        refusal = self._refuse_later_batches(occasions, entry) if self._unstarted and context.api == "Produce" else None
        self._watch(context, request, entry.origin, occasions)
        rows = self._by_api.get(context.api, ())
        if is_over or not rows or refusal is not None:
            return refusal
        names = [occasion.point.name for occasion in occasions]
        happened = max((self._happened[name] for name in names), default=0)
        for occasion in occasions:
            for step in self._schedule.propose(occasion.point, rows, happened):
                row = next(row for row in rows if row.name == step.row)
                assert row.act is not None
                done = replace(step, attempt=occasion.point.attempt, number=entry.number or self._number)
                situation = Situation(self, occasion, request, call, context.client_id, done)
                acted = row.act(situation)
                if acted is not False:
                    fault = None if acted is True else acted
                    if fault is not None and fault.action in _CLOSING:
                        if self._given is None and self._closings[context.client_id] >= _MAX_CLOSINGS:
                            continue
                        self._closings[context.client_id] += 1
                    self._schedule.record(step, occasion.point)
                    self._happened.update(names)
                    self.steps.append(done)
                    self._note_first_batch(context.api, occasion, fault, done)
                    entry.chaos = done
                    self._services.core.hooks.misbehaved(str(done.pending()))
                    known = frozenset(self._connections[context.client_id])
                    self._watches.append(_Watch(done, context, occasion.target, known, fault))
                    return fault
        return None

    def _note_first_batch(self, api: str, occasion: Occasion, fault: Fault | None, step: Step) -> None:
        """Record the step in which the first batch of an idempotent producer in a partition is refused."""
        if api == "Produce" and fault is not None and fault.error is not None and not fault.applied:
            header = occasion.detail.header
            if header.producer_id >= 0 and header.base_sequence == 0:
                self._unstarted[header.producer_id, occasion.target] = step

    def _refuse_later_batches(self, occasions: list[Occasion], entry: RecordedRequest) -> Fault | None:
        """Refuse what a producer has sent after its refused first batch, until it sends that again.

        A leader that knows nothing of a producer takes any sequence number, so the first batch would never be taken.
        """
        for occasion in occasions:
            header, target = occasion.detail.header, occasion.target
            if (header.producer_id, target) in self._unstarted:
                if header.base_sequence:
                    entry.chaos = self._unstarted[header.producer_id, target]
                    return Fault(error="NOT_LEADER_OR_FOLLOWER", topic=target.topic, partition=target.partition)
                del self._unstarted[header.producer_id, target]
        return None

    def _count_down(self, context: RequestContext) -> None:
        """Release what was held for enough requests."""
        for hold in tuple(self._holds):
            if _names_any(context, hold.target):
                hold.left -= 1
                if hold.left < 0:
                    self._end_hold(hold)

    def _watch(self, context: RequestContext, request: Any, connection: object, occasions: list[Occasion]) -> None:
        """Record what a request says about the steps before it."""
        connections = self._connections.setdefault(context.client_id, set())
        for watch in tuple(self._watches):
            is_own = watch.context.client_id == context.client_id
            if not is_own and not (watch.is_action and _names_any(context, watch.target)):
                continue
            reactions: list[str] = []
            if any(occasion.point.name == watch.step.point for occasion in occasions):
                reactions.append("tried again")
            if watch.is_refusal and watch.context.api not in _AT_START:
                is_data = watch.context.api in _DATA_APIS
                reaction = (_DATA_REACTIONS if is_data else _COORDINATOR_REACTIONS).get(context.api)
                reactions += filter(None, (reaction, self.points.moved_back))
                if watch.is_closing and is_own and connection not in watch.known:
                    reactions.append("reconnected")
                if context.api == "EndTxn" and not request.committed:
                    reactions.append("aborted its transaction")
            watch.seen.update(dict.fromkeys(reactions))
            if watch.seen:
                watch.step.felt = ", ".join(watch.seen)
            watch.left -= 1
            if not watch.left:
                if not watch.seen and watch.context.api == "Produce" and watch.fault and watch.fault.error:
                    watch.step.felt = "did not try again"
                self._watches.remove(watch)
        connections.add(connection)


def _names_any(context: RequestContext, target: Target) -> bool:
    """Return whether a request names the partition, the group or the transactional id of a target."""
    return any(
        (target.group is not None and other.group == target.group)
        or (target.transactional_id is not None and other.transactional_id == target.transactional_id)
        or (target.topic is not None and other[:2] == target[:2])
        for other in context.targets
    )
