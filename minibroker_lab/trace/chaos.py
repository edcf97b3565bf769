"""Chaos from a seed before any Kafka: the misbehaviours that a proxy can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from minibroker_chaos.decider import Decider
from minibroker_chaos.decisions import SeededSchedule
from minibroker_chaos.rows import FaultAct, rows_of
from minibroker_chaos.situation import Situation
from minibroker_chaos.steps import VERSION, describe_no_effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.server.faults.fault import Fault, RequestContext
    from minibroker_chaos.points import Occasion
    from minibroker_chaos.rows import Row
    from minibroker_chaos.steps import Step


_OF_LOGS: Final = frozenset({"empty-fetch", "small-fetch"})
"""Faults of single requests that a proxy cannot show, since it does not read the log."""


class ProxyChaos:
    """The misbehaviours of one run: those of a profile that are faults of single requests.

    Args:
        seed: The seed of the decisions.
        profile: A name of `minibroker_chaos.rows.PROFILES`.
        is_possible: Returns whether the proxy can apply a fault to a request.

    Attributes:
        brokers: The number of brokers in the newest metadata.

    Raises:
        ChaosError: There is no such profile.
    """

    def __init__(self, seed: int, profile: str, is_possible: Callable[[Fault, RequestContext], bool]) -> None:
        self._seed = seed
        self._title = f"chaos {VERSION}: seed {seed}, profile {profile}, in the proxy"
        rows = [row for row in rows_of(profile) if isinstance(row.act, FaultAct) and row.name not in _OF_LOGS]
        self._decider = Decider(rows, SeededSchedule(seed, rows), lambda _: None)
        self._is_possible = is_possible
        self.brokers = 1

    def advise(self, context: RequestContext, request: Any, opened_after: int, number: int) -> Fault | None:
        """Return the fault that hits a request, or None."""

        def perform(row: Row, occasion: Occasion, step: Step) -> Fault | bool:
            if row.brokers > self.brokers:
                return False
            # Faults of single requests ask for nothing but the points, so the decider stands for the engine.
            chaos = cast("Any", self._decider)
            situation = Situation(chaos, occasion, request, cast("Any", None), context.client_id, step)
            assert row.act is not None
            fault = row.act(situation)
            return fault if isinstance(fault, bool) or self._is_possible(fault, context) else False

        decision = self._decider.decide(context, request, opened_after, number, perform)
        return None if decision is None else decision[1]

    def report(self) -> list[str]:
        """Return the run in words: its seed, its steps, and whether clients felt them."""
        steps = self._decider.steps
        felt = any(step.is_felt for step in steps)
        lines = [self._title, *map(str, steps)]
        return lines if felt else [*lines, describe_no_effect(None if steps else self._seed)]
