"""Stages, checks, and the exceptions raised by a check that fails or is skipped."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from minibroker_grade.subject import Subject

LIMIT_S: Final = 60.0

CheckFunction = Callable[["Subject"], None]
"""A check function. It sends requests to the broker, and raises CheckFailedError or SkippedError."""


@dataclass(frozen=True, slots=True)
class Check:
    """A single check of a broker.

    Attributes:
        name: The stage and the function, such as "produce/base-offsets".
        stage: The name of the stage.
        teaches: The docstring of the function, as one paragraph.
        source: The KIP or the Kafka class that defines the behavior.
        look: A hint about where in the broker to look next.
        limit: The time limit in seconds.
        function: The check function.
    """

    name: str
    stage: str
    teaches: str
    source: str
    look: str
    limit: float
    function: CheckFunction


@dataclass(slots=True)
class Stage:
    """Checks about one subject. `about` describes the subject in one sentence."""

    name: str
    title: str
    about: str
    checks: list[Check] = field(default_factory=list[Check])

    def check(self, source: str, *, look: str, limit: float = LIMIT_S) -> Callable[[CheckFunction], CheckFunction]:
        """Return a decorator that registers a function as a check, with the function's name and docstring."""

        def add(function: CheckFunction) -> CheckFunction:
            name = f"{self.name}/{function.__name__.replace('_', '-')}"
            teaches = " ".join((function.__doc__ or "").split())
            self.checks.append(Check(name, self.name, teaches, source, look, limit, function))
            return function

        return add


class CheckFailedError(Exception):
    """A response or a file differs from Kafka's.

    Args:
        expected: A phrase such as "35 in error_code".
        actual: A phrase for the actual value.
        response: The wrong decoded response, if there is one.
        path: The wrong field of the response, such as "topics[0].error_code". For a file, a remark about it.
        value: The expected value of that field. None if several values are valid.
        file: The wrong file, if the failure is in a file and not in a response.
        at: The position of the first wrong byte in the file.
    """

    def __init__(
        self,
        expected: str,
        actual: str,
        response: Any = None,
        path: str = "",
        value: Any = None,
        *,
        file: str = "",
        at: int = 0,
    ) -> None:
        super().__init__(f"expected {expected}, came {actual}")
        self.expected = expected
        self.actual = actual
        self.response = response
        self.path = path
        self.value = value
        self.file = file
        self.at = at


class SkippedError(Exception):
    """The check does not apply. The message gives the reason."""
