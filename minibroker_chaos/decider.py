"""Decides at each request whether something goes wrong there, and watches how the clients react."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.server.faults.fault import Fault
from minibroker.server.requests.declarations import Target
from minibroker_chaos.points import Points
from minibroker_protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from minibroker.server.faults.fault import RequestContext
    from minibroker.server.inspection.recording import RecordedRequest
    from minibroker_chaos.decisions import Schedule
    from minibroker_chaos.points import Occasion
    from minibroker_chaos.rows import Row
    from minibroker_chaos.steps import Step

    Perform = Callable[[Row, Occasion, Step], Fault | bool]

_CLOSING: Final = frozenset({"disconnect", "late", "black_hole"})
_MAX_CLOSINGS: Final = 3
"""The closed connections per client id in a run. After more of them clients wait for many seconds to connect again."""
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
_ORDINARY_CODES: Final = frozenset({ErrorCode.MEMBER_ID_REQUIRED})
_DATA_APIS: Final = frozenset({"Produce", "Fetch", "ShareFetch", "ShareAcknowledge"})
_AT_START: Final = frozenset(
    {"Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "InitProducerId"}
)


@dataclass
class _Watch:
    """A step whose reaction is still awaited. If it is of a group, only requests of the group are reactions."""

    step: Step
    context: RequestContext
    target: Target
    fault: Fault | None
    is_of_group: bool
    left: int = _REACTION_REQUESTS
    seen: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def is_action(self) -> bool:
        """Whether the step did more than a fault, so that other clients may feel it."""
        return self.fault is None or self.fault.delays_request

    @property
    def is_closing(self) -> bool:
        """Whether the step may have closed the connection."""
        return self.is_action or (self.fault is not None and self.fault.action in _CLOSING)

    @property
    def is_refusal(self) -> bool:
        """Whether the client must react. It need not react to what is late or small."""
        return self.is_closing or (self.fault is not None and self.fault.error is not None)


class Decider:
    """The decisions of one run.

    Args:
        rows: The misbehaviours that are possible.
        schedule: Chooses among them.
        on_step: Called with each step that happens.

    Attributes:
        steps: What has happened.
        points: The names of the run's points.
        schedule: As given.
        is_quiet: Whether nothing new goes wrong.
    """

    def __init__(self, rows: Sequence[Row], schedule: Schedule, on_step: Callable[[Step], object]) -> None:
        self.steps: list[Step] = []
        self.points = Points()
        self.schedule = schedule
        self.is_quiet = False
        self._on_step = on_step
        self._by_api: dict[str, list[Row]] = {}
        for row in rows:
            for api in row.apis:
                self._by_api.setdefault(api, []).append(row)
        self._happened: Counter[str] = Counter()
        self._closings: Counter[str | None] = Counter()
        self._watches: list[_Watch] = []
        self._unstarted: dict[tuple[int, Target], Step] = {}

    def settle(self) -> None:
        """Let nothing go wrong from here on."""
        self.is_quiet = True
        self._unstarted.clear()

    def decide(
        self, context: RequestContext, request: Any, opened_after: int, number: int, perform: Perform
    ) -> tuple[Step, Fault | None] | None:
        """Return the step that happens at a request and the fault that hits it, or None if nothing happens.

        Args:
            context: What faults are matched against.
            request: The request.
            opened_after: The number of the last request before the first one of its connection.
            number: The number of the request.
            perform: Does what a step says at an occasion. It returns the fault that hits the request, True if it did
                something else, or False if that is not possible there.
        """
        is_over = self.is_quiet or self.schedule.is_over
        if is_over and not self._watches and not self._unstarted:
            return None
        occasions = list(self.points.of(context, request))
        refusal = self._refuse_later_batches(occasions) if self._unstarted and context.api == "Produce" else None
        self._watch(context, request, opened_after, occasions)
        rows = self._by_api.get(context.api, ())
        if is_over or not rows or refusal is not None:
            return refusal
        names = [occasion.point.name for occasion in occasions]
        happened = max((self._happened[name] for name in names), default=0)
        for occasion in occasions:
            for proposed in self.schedule.propose(occasion.point, rows, happened):
                row = next(row for row in rows if row.name == proposed.row)
                step = replace(proposed, attempt=occasion.point.attempt, number=number)
                performed = perform(row, occasion, step)
                if performed is False:
                    continue
                fault = None if performed is True else performed
                if fault is not None and fault.action in _CLOSING:
                    if self.schedule.is_limited and self._closings[context.client_id] >= _MAX_CLOSINGS:
                        continue
                    self._closings[context.client_id] += 1
                self.schedule.record(proposed, occasion.point)
                self._happened.update(names)
                self.steps.append(step)
                self._note_first_batch(context.api, occasion, fault, step)
                self._on_step(step)
                if fault is not None and fault.error is not None:
                    step.felt = f"got {cast('ErrorCode', fault.error).name}"
                group = self.points.group_of(occasion.target, context.client_id) if row.is_of_group else None
                target = occasion.target if group is None else Target(group=group)
                self._watches.append(_Watch(step, context, target, fault, group is not None))
                return step, fault
        return None

    def _note_first_batch(self, api: str, occasion: Occasion, fault: Fault | None, step: Step) -> None:
        """Remember a step that refuses the first batch of an idempotent producer in a partition."""
        if api == "Produce" and fault is not None and fault.error is not None and not fault.applied:
            header = occasion.detail.header
            if header.producer_id >= 0 and header.base_sequence == 0:
                self._unstarted[header.producer_id, occasion.target] = step

    def _refuse_later_batches(self, occasions: list[Occasion]) -> tuple[Step, Fault] | None:
        """Refuse what a producer has sent after its refused first batch, until it sends that again.

        A leader that knows nothing of a producer takes any sequence number, so the first batch would never be taken.
        """
        for occasion in occasions:
            header, target = occasion.detail.header, occasion.target
            if (header.producer_id, target) in self._unstarted:
                if header.base_sequence:
                    fault = Fault(error="NOT_LEADER_OR_FOLLOWER", topic=target.topic, partition=target.partition)
                    return self._unstarted[header.producer_id, target], fault
                del self._unstarted[header.producer_id, target]
        return None

    def observe(self, entry: RecordedRequest, codes: Iterable[int]) -> None:
        """Record that a client got these error codes. It has felt an action of a step before, whatever it does next."""
        errors = [ErrorCode(code).name for code in codes if code not in _ORDINARY_CODES] if self._watches else []
        for watch in self._watches if errors else ():
            is_own = watch.context.client_id == entry.client_id and not watch.is_of_group
            if watch.is_action and not watch.step.is_felt and (is_own or names_any(entry, watch.target)):
                watch.step.felt = f"got {errors[0]}"

    def _watch(self, context: RequestContext, request: Any, opened_after: int, occasions: list[Occasion]) -> None:
        """Record what a request says about the steps before it."""
        for watch in tuple(self._watches):
            is_own = watch.context.client_id == context.client_id
            is_others = watch.is_of_group or not is_own
            if is_others and not (watch.is_action and names_any(context, watch.target)):
                continue
            reactions: list[str] = []
            if any(occasion.point.name == watch.step.point for occasion in occasions):
                reactions.append("tried again")
            if watch.is_refusal and watch.context.api not in _AT_START:
                is_data = watch.context.api in _DATA_APIS and not watch.is_of_group
                reaction = (_DATA_REACTIONS if is_data else _COORDINATOR_REACTIONS).get(context.api)
                reactions += filter(None, (reaction, self.points.moved_back))
                if watch.is_closing and is_own and opened_after >= watch.step.number:
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


def names_any(context: RequestContext | RecordedRequest, target: Target) -> bool:
    """Return whether a request names the partition, the group or the transactional id of a target."""
    return any(
        (target.group is not None and other.group == target.group)
        or (target.transactional_id is not None and other.transactional_id == target.transactional_id)
        or (target.topic is not None and other[:2] == target[:2])
        for other in context.targets
    )
