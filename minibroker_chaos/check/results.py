"""The results of checks: what they found, and whether they could decide."""

from dataclasses import dataclass
from typing import Final, Literal

from minibroker.cluster.errors import FailedExpectationError

Outcome = Literal["passed", "failed", "inconclusive"]
_FINDINGS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that an application did wrong.

    Attributes:
        check: The name of the check.
        certain: Whether the broker has seen all of it. Otherwise it is likely.
        summary: What happened, in a sentence or two.
        topic: The topic of the record or committed offset, or "" for a group as a whole.
        partition: Its partition, or -1.
        offset: Its offset, or -1.
        time_line: What the broker saw before, at most 20 lines in order.
    """

    check: str
    certain: bool
    summary: str
    topic: str
    partition: int
    offset: int
    time_line: tuple[str, ...]

    def __str__(self) -> str:
        title = f"{self.check}, {'certain' if self.certain else 'likely'}: {self.summary}"
        return "\n".join((title, *(f"  {line}" for line in self.time_line)))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        check: The name of the check.
        outcome: `passed`, `failed` if there are findings, or `inconclusive`.
        reasons: Why the check could not decide, or not decide all of it.
        findings: The certain ones first, otherwise in order of topic, partition and offset.
    """

    check: str
    outcome: Outcome
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def certain(self) -> tuple[Finding, ...]:
        """The findings that the broker can prove."""
        return tuple(finding for finding in self.findings if finding.certain)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings[:_FINDINGS_SHOWN]] or [f"{self.check}: {self.outcome}"]
        if len(self.findings) > _FINDINGS_SHOWN:
            lines.append(f"and {len(self.findings) - _FINDINGS_SHOWN} more")
        return "\n".join((*lines, *self.reasons))


class CheckFailedError(FailedExpectationError):
    """A check has found something, or could not decide. The message shows its result.

    Attributes:
        result: The result.
    """

    def __init__(self, result: CheckResult) -> None:
        super().__init__(str(result))
        self.result = result


CheckFailedError.__module__ = "minibroker"  # from which users import it


def make_result(check: str, findings: list[Finding], reasons: list[str]) -> CheckResult:
    """Return the result of a check with these findings, and with the reasons why it could not decide all."""
    ordered = sorted(findings, key=lambda found: (not found.certain, found.topic, found.partition, found.offset))
    outcome: Outcome = "failed" if findings else "inconclusive" if reasons else "passed"
    return CheckResult(check, outcome, tuple(dict.fromkeys(reasons)), tuple(ordered))
