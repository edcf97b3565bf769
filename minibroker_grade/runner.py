"""Runs checks one after another, each with a time limit, and detects a broker that has died."""

import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from minibroker_grade.check import Check, CheckFailedError, SkippedError
from minibroker_grade.explaining import explain
from minibroker_grade.process import BrokerProcess
from minibroker_grade.subject import Subject
from minibroker_grade.wire import Address, BrokenAnswerError, accepts_connections, answers_api_versions
from minibroker_protocol.errors import ProtocolError

ANSWER_S: Final = 5.0
"""Seconds within which a broker must accept a connection or answer ApiVersions."""

_MISSING_ELEMENT_ERRORS: Final = (LookupError, AttributeError, TypeError, ValueError, StopIteration, struct.error)
"""Exceptions raised by a check that reads an element missing in the response."""

Outcome = Literal["passed", "failed", "skipped", "died"]


@dataclass(slots=True)
class Result:
    """The outcome of a check.

    Attributes:
        check: The check.
        outcome: "passed", "failed", "skipped" or "died".
        reason: The reason for the outcome, or an empty string if the check passed.
        failure: The result of `explain` if the check failed or the broker died, otherwise empty.
        seconds: The wall-clock duration.
    """

    check: Check
    outcome: Outcome
    reason: str
    failure: dict[str, Any]
    seconds: float

    @property
    def has_failed(self) -> bool:
        """Whether the broker gave a wrong answer or no answer."""
        return self.outcome in {"failed", "died"}


@dataclass(slots=True)
class Target:
    """The broker to grade, with its data directory and its process, if they are known."""

    address: Address
    data_dir: str | None = None
    process: BrokerProcess | None = None


def run(target: Target, checks: Iterable[Check]) -> Iterator[Result]:
    """Run the checks, and yield each result as soon as it is available.

    A broker that dies during a check is restarted if the target has its process. If not, the remaining checks are
    skipped.
    """
    killer = ""
    for check in checks:
        reason = f"the broker is gone since {killer}"
        result = Result(check, "skipped", reason, {}, 0.0) if killer else run_check(target, check)
        yield result
        if result.outcome == "died" and not _restart(target):
            killer = check.name


def run_check(target: Target, check: Check) -> Result:
    """Run one check within its time limit."""
    start = time.monotonic()
    subject = Subject(target.address, check.limit, target.data_dir, target.process)
    outcome: Outcome = "passed"
    reason = ""
    failure: dict[str, Any] = {}
    try:
        check.function(subject)
    except SkippedError as skipped:
        outcome, reason = "skipped", str(skipped)
    except (CheckFailedError, BrokenAnswerError, ProtocolError, OSError, *_MISSING_ELEMENT_ERRORS) as error:
        if isinstance(error, _MISSING_ELEMENT_ERRORS):
            error = CheckFailedError("all elements that were asked for", "a response that lacks some of them")
        outcome, reason = "failed", str(error)
        failure = explain(check, error, subject.exchanges)
        if problem := _find_unavailable_reason(target.address, subject.deadline, min(check.limit, ANSWER_S)):
            outcome, reason = "died", f"the broker at {target.address[0]}:{target.address[1]} {problem}"
    finally:
        subject.close()
    return Result(check, outcome, reason, failure, time.monotonic() - start)


def _find_unavailable_reason(address: Address, deadline: float, patience: float) -> str:
    """Return the reason why the broker is unavailable, or an empty string.

    A request is sent only if the check has reached its time limit. Otherwise every check would wait for a silent
    broker.
    """
    if not accepts_connections(address, ANSWER_S):
        return "accepts no connection any more"
    if time.monotonic() > deadline and not answers_api_versions(address, patience):
        return f"accepts connections, but has not answered ApiVersions for {patience:g} seconds"
    return ""


def _restart(target: Target) -> bool:
    if target.process is None:
        return False
    target.process.kill()
    try:
        target.process.start()
    except (OSError, ValueError):
        return False
    return True
