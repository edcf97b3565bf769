"""Stages and their checks, and the ways in which a check fails."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from minibroker_grade.subject import Subject

LIMIT_S: Final = 60.0

Function = Callable[["Subject"], None]
"""A check: it asks the broker, and raises CheckFailedError or SkippedError."""


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


class CheckFailedError(Exception):
    """An answer is not as Kafka's.

    Args:
        expected: a phrase: "35 in error_code".
        came: a phrase.
        response: the decoded response that is wrong, if there is one.
        path: the field in it: "topics[0].error_code".
        value: the expected value of that field; None where there is not one alone.
        file, at: the wrong file instead of a response, and the first byte that differs; `path` is a remark on it.
    """

    def __init__(
        self,
        expected: str,
        came: str,
        response: Any = None,
        path: str = "",
        value: Any = None,
        *,
        file: str = "",
        at: int = 0,
    ) -> None:
        super().__init__(f"expected {expected}, came {came}")
        self.expected = expected
        self.came = came
        self.response = response
        self.path = path
        self.value = value
        self.file = file
        self.at = at


class SkippedError(Exception):
    """The check does not apply; the message says why."""
