"""Stages and their checks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from minibroker.grade.subject import Subject

LIMIT_S: Final = 60.0

Function = Callable[["Subject"], None]
"""A check: it asks the broker, and raises what `failures` has."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question to a broker.

    Attributes:
        name: "produce/base-offsets", of its stage and its function.
        teaches: one paragraph, the docstring of its function.
        source: the KIP or the class of Kafka that decides.
        look: the place where a broker's author looks next.
        limit: in seconds.
    """

    name: str
    stage: str
    teaches: str
    source: str
    look: str
    limit: float
    function: Function


@dataclass(slots=True)
class Stage:
    """Checks about one subject; `about` is a sentence."""

    name: str
    title: str
    about: str
    checks: list[Check] = field(default_factory=list[Check])

    def check(self, source: str, *, look: str, limit: float = LIMIT_S) -> Callable[[Function], Function]:
        """Add a function as a check; its name and its docstring become those of the check."""

        def add(function: Function) -> Function:
            name = f"{self.name}/{function.__name__.replace('_', '-')}"
            teaches = " ".join((function.__doc__ or "").split())
            self.checks.append(Check(name, self.name, teaches, source, look, limit, function))
            return function

        return add
