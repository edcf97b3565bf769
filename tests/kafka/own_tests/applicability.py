"""The list of Kafka's tests that cannot apply to another broker, and the judgement of results by it.

A line of not-applicable.txt has the full name of a test method and, after a colon, the reason:

- INSIDE-KAFKA: it fails because it asks for a Java object of Kafka's broker or controller.
- IN-PROCESS: it passes on Kafka only because the broker shares the test's JVM, such as its metrics, logs and plug-ins.
- CONTROLLER: it is a test of KRaft's controllers.

Words after the reason say more. A method may stand there with the invocations that fail; others may pass.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.kafka.own_tests.runs import Result

LIST: Final = Path(__file__).with_name("not-applicable.txt")
REASONS: Final = ("INSIDE-KAFKA", "IN-PROCESS", "CONTROLLER")


def read_list() -> dict[str, str]:
    """Read the reasons, by the names of methods. ValueError for a line that is none."""
    listed: dict[str, str] = {}
    for line in LIST.read_text().splitlines():
        name, colon, reason = line.partition(": ")
        if not line or line.startswith("#"):
            continue
        if not colon or reason.split()[0] not in REASONS or name in listed:
            raise ValueError(f"{LIST.name}: {line!r}")
        listed[name] = reason
    return listed


def faults(results: Iterable[Result], listed: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a run: tests that fail and are not listed, and listed ones that pass."""
    wrong: list[str] = []
    outcomes: dict[str, set[str]] = {}
    for result in results:
        outcomes.setdefault(result.name, set()).add(result.outcome)
        if result.outcome != "failed":
            continue
        if result.name not in listed:
            wrong.append(f"FAILED {result.name} | {result.test} | {_first_lines(result.message)}")
        elif listed[result.name].startswith("INSIDE-KAFKA") and not result.is_inside_kafka:
            wrong.append(
                f"FAILED, though not INSIDE-KAFKA: {result.name} | {result.test} | {_first_lines(result.message)}"
            )
    wrong += [
        f"LISTED, but passes: {name}"
        for name in listed
        if "passed" in outcomes.get(name, ()) and "failed" not in outcomes[name]
    ]
    return wrong


def _first_lines(message: str) -> str:
    return " ".join(message.splitlines()[:2])[:300]
