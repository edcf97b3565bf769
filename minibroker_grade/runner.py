"""Runs checks one after the other; each has its limit, and a broker that dies is noticed."""

import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from minibroker_grade.check import Check, CheckFailedError, SkippedError
from minibroker_grade.explaining import explain
from minibroker_grade.process import BrokerProcess
from minibroker_grade.subject import Subject
from minibroker_grade.wire import Address, BrokenAnswerError, answers
from minibroker_protocol.errors import ProtocolError

_ANSWER_S: Final = 5.0

_LACKING: Final = (LookupError, AttributeError, TypeError, ValueError, StopIteration, struct.error)
"""Errors of a check that reads an element which the broker has left out."""

Outcome = Literal["passed", "failed", "skipped", "died"]


@dataclass(slots=True)
class Result:
    """A check with its outcome.

    Attributes:
        reason: of a check that was skipped or that the broker did not survive.
        failure: what `explain` has of it; empty unless it failed or the broker died.
        seconds: of wall time.
    """

    check: Check
    outcome: Outcome
    reason: str
    failure: dict[str, Any]
    seconds: float

    @property
    def has_failed(self) -> bool:
        """Has the broker given a wrong answer, or none?"""
        return self.outcome in {"failed", "died"}


@dataclass(slots=True)
class Target:
    """The broker to be graded, and what the grader knows of it."""

    address: Address
    data_dir: str | None = None
    process: BrokerProcess | None = None


def run(target: Target, checks: Sequence[Check], done: Callable[[Result], None]) -> list[Result]:
    """Run the checks; `done` gets each result as it comes.

    After a check that ends the broker it is started again if the target has its process. If not, all that is left is
    skipped.
    """
    results: list[Result] = []
    for at, check in enumerate(checks):
        result = run_check(target, check)
        results.append(result)
        done(result)
        if result.outcome == "died" and not _restarted(target):
            for left in _unreached(checks[at + 1 :], check):
                results.append(left)
                done(left)
            break
    return results


def run_check(target: Target, check: Check) -> Result:
    """Run one check; it ends at its limit at the latest."""
    start = time.monotonic()
    subject = Subject(target.address, check.limit, target.data_dir, target.process)
    outcome: Outcome = "passed"
    reason = ""
    failure: dict[str, Any] = {}
    try:
        check.function(subject)
    except SkippedError as skipped:
        outcome, reason = "skipped", str(skipped)
    except (CheckFailedError, BrokenAnswerError, ProtocolError, OSError, *_LACKING) as error:
        if isinstance(error, _LACKING):
            error = CheckFailedError("all elements that were asked for", "a response that lacks some of them")
        outcome, reason = "failed", str(error)
        failure = explain(check, error, subject.exchanges)
        if gone := _gone(target.address, subject.deadline, min(check.limit, _ANSWER_S)):
            outcome, reason = "died", f"the broker at {target.address[0]}:{target.address[1]} {gone}"
    finally:
        subject.close()
    return Result(check, outcome, reason, failure, time.monotonic() - start)


def is_alive(address: Address) -> bool:
    """Does it accept a connection?"""
    try:
        socket.create_connection(address, timeout=_ANSWER_S).close()
    except OSError:
        return False
    return True


def _gone(address: Address, deadline: float, patience: float) -> str:
    """The words for a broker that cannot be asked any more; empty if it can be.

    It is asked only when a check has waited up to its limit: one that is silent would have each of them wait.
    """
    if not is_alive(address):
        return "accepts no connection any more"
    if time.monotonic() > deadline and not answers(address, patience):
        return f"accepts connections, but has not answered ApiVersions for {patience:g} seconds"
    return ""


def _restarted(target: Target) -> bool:
    if target.process is None:
        return False
    target.process.kill()
    try:
        target.process.start()
    except (OSError, ValueError):
        return False
    return True


def _unreached(checks: Iterable[Check], killer: Check) -> list[Result]:
    reason = f"the broker is gone since {killer.name}"
    return [Result(check, "skipped", reason, {}, 0.0) for check in checks]
