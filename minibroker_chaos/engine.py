"""The engine: runs a schedule of misbehaviours on a broker, with the broker's own faults and with `moves`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from minibroker.server.faults.registry import faults_of
from minibroker.server.inspection.journal import error_codes_of
from minibroker.server.inspection.recording import recording_of
from minibroker_chaos.check.facts import facts_of
from minibroker_chaos.check.invariants import find_broker_violations
from minibroker_chaos.decider import Decider, names_any
from minibroker_chaos.decisions import SeededSchedule, StoredSchedule
from minibroker_chaos.rows import ROWS, Row, rows_of
from minibroker_chaos.situation import Held, Situation
from minibroker_chaos.steps import DEFAULT_PROFILE, VERSION, ChaosError, Step, describe_no_effect
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_chaos import moves

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from minibroker.server.faults.fault import Fault, RequestContext
    from minibroker.server.inspection.recording import RecordedRequest
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.declarations import Target
    from minibroker.server.services import Services
    from minibroker_chaos.points import Occasion

_MAX_HOLD_S: Final = 0.2


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
        is_replaced: Whether another chaos has taken its place for a while.

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
        if not isinstance(seed, int | None):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
            raise ChaosError(f"seed: {seed!r} is not a number such as 7")
        self._services = services
        self.seed = seed
        self.profile = profile
        self._given = steps
        self._outer: Chaos | None = None
        self._is_running = self.is_replaced = False
        rows = ROWS if steps is not None else rows_of(profile, only, without)
        self._brokers = len(services.core.cluster.nodes)
        self._rows = [row for row in rows if row.act is not None and row.brokers <= self._brokers]
        if steps is not None:
            known = {row.name: row.parameters.keys() for row in ROWS}
            for step in steps:
                if known.get(step.row) != step.parameters.keys():
                    given = ", ".join(step.parameters) or "none"
                    raise ChaosError(f"steps: there is no misbehaviour {step.row!r} with these parameters: {given}")
        self._begin()

    def _begin(self) -> None:
        self.violations: list[str] = []
        schedule = SeededSchedule(self.seed or 0, self._rows) if self._given is None else StoredSchedule(self._given)
        misbehaved = self._services.core.hooks.misbehaved
        self._decider = Decider(self._rows, schedule, lambda step: misbehaved(str(step.pending())))
        self._decider.is_quiet = True
        self.steps, self.points = self._decider.steps, self._decider.points
        self._holds: list[_Hold] = []
        self._number = 0
        self._began_after = recording_of(self._services).last_number
        self.outlived: set[str] = set()

    def start(self) -> None:
        """Begin to misbehave, and to keep what the broker is judged by. A chaos that is running is paused."""
        facts_of(self._services)
        self._outer = self._services.chaos
        if self._outer is not None:
            self._outer.pause()
        self._is_running = True
        self._decider.is_quiet = False
        self.resume()

    def pause(self) -> None:
        """End all that is held, for another chaos that takes the place of this one."""
        was_quiet = self._decider.is_quiet
        self._end_all()
        faults_of(self._services).remove_observer(self._observe)
        self._decider.is_quiet = was_quiet
        self.is_replaced = True

    def resume(self) -> None:
        """Be the chaos of the broker."""
        self._services.chaos = self
        faults = faults_of(self._services)
        faults.advisor = self._advise
        faults.add_observer(self._observe)

    def restart(self) -> None:
        """Forget the run so far, for a test that begins with an empty broker."""
        self._end_all()
        self._begin()
        self._decider.is_quiet = False
        if self._outer is not None:
            self._outer.restart()

    def settle(self) -> None:
        """End all that is held, apply late requests, and stop misbehaving: the quiet phase.

        The broker is then checked for what no Kafka cluster does.
        """
        self._end_all()
        self.violations = find_broker_violations(self._services)

    def _end_all(self) -> None:
        self._decider.settle()
        while self._holds:
            self._end_hold(self._holds[-1])
        faults_of(self._services).settle()

    def stop(self) -> None:
        """Settle, and leave the broker as it was. Chaos that began later and is still running ends, too."""
        while self._is_running and self._services.chaos is not self:
            self._services.chaos.stop()
        try:
            self.settle()
        finally:
            if self._is_running:
                self._is_running = False
                faults_of(self._services).remove_observer(self._observe)
                self._services.chaos = faults_of(self._services).advisor = None
                if self._outer is not None:
                    self._outer.resume()

    @property
    def is_felt(self) -> bool:
        """Whether a client has reacted to a step."""
        return any(step.is_felt for step in self.steps)

    @property
    def met(self) -> tuple[int, int, int]:
        """The numbers of steps to repeat that happened exactly, at a later attempt, and not at all."""
        schedule = self._decider.schedule
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
            lines.append(describe_no_effect(None if self.steps else self.seed))
        if self.outlived:
            lines.append(f"connected before the run: {', '.join(sorted(self.outlived))}")
        return lines

    def hold(self, held: Held, at: Situation, target: Target, limit_s: float = _MAX_HOLD_S) -> None:
        """Hold something until a target has had the step's number of `requests`, or for `limit_s` seconds at most.

        The limit is real time, because a client may be waiting for exactly this.
        """
        hold = _Hold(held, at.step, target, at.parameters["requests"])
        hold.timer = asyncio.get_running_loop().call_later(limit_s, self._end_hold, hold)
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
            entry.chaos = entry.chaos or old[1]
        return fault

    def _observe(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:  # noqa: ARG002 - others need them
        """Pass the errors that a client gets to the decider. See `FaultRegistry.add_observer`."""
        self._decider.observe(entry, error_codes_of(response))

    def _decide(self, context: RequestContext, request: Any, call: Call, entry: RecordedRequest) -> Fault | None:
        self._number += 1
        if entry.opened_after < self._began_after:
            self.outlived.add(context.client_id or "a client without an id")
        self._count_down(context)
        if request is None:
            return None

        def perform(row: Row, occasion: Occasion, step: Step) -> Fault | bool:
            assert row.act is not None
            return row.act(Situation(self, occasion, request, call, context.client_id, step))

        decision = self._decider.decide(context, request, entry.opened_after, entry.number or self._number, perform)
        if decision is None:
            return None
        entry.chaos, fault = decision
        return fault

    def _count_down(self, context: RequestContext) -> None:
        """Release what was held for enough requests."""
        for hold in tuple(self._holds):
            if names_any(context, hold.target):
                hold.left -= 1
                if hold.left < 0:
                    self._end_hold(hold)
