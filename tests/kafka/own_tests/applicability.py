"""The lists of Kafka's tests that may fail, and the judgement of results by them.

A line of a list has the full name of a test method and, after a colon, the reason. The list not-applicable.txt has the
tests that cannot apply to another broker; their reasons begin with one of these words, and more words may follow:

- INSIDE-KAFKA: it fails because it asks for a Java object of Kafka's broker or controller.
- IN-PROCESS: it passes on Kafka only because the broker shares the test's JVM, such as its metrics, logs and plug-ins.
- CONTROLLER: it is a test of KRaft's controllers.

The list known-failures.txt has the other tests that fail, and what is different: in minibroker, or in the environment
of these tests. A class that cannot be set up stands there without a method. Of a listed method some invocations may
pass. A release and a blank in front of the name restrict a line to the tests of that release. Packages do not count,
since some releases have moved classes to others.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.kafka.own_tests.runs import INSIDE_KAFKA, Result

_HERE: Final = Path(__file__).parent
NOT_APPLICABLE: Final = "not-applicable.txt"
KNOWN_FAILURES: Final = "known-failures.txt"
_PACKAGE: Final = re.compile(r"^([a-z0-9]+\.)+")
REASONS: Final = (INSIDE_KAFKA, "IN-PROCESS", "CONTROLLER")


def read_lists(emulated: str) -> dict[str, str]:
    """Return the reasons of both lists by class and method, for a release as `--emulate` has it.

    Raises:
        ValueError: A line is invalid, or names a method again.
    """
    listed: dict[str, str] = {}
    for file in (NOT_APPLICABLE, KNOWN_FAILURES):
        for line in (_HERE / file).read_text().splitlines():
            names, colon, reason = line.partition(": ")
            release, _, full_name = names.rpartition(" ")
            name = _PACKAGE.sub("", full_name)
            if not line or line.startswith("#") or release not in {"", emulated}:
                continue
            if not colon or name in listed or is_not_applicable(reason) is not (file == NOT_APPLICABLE):
                raise ValueError(f"{file}: {line!r}")
            listed[name] = reason
    return listed


def is_not_applicable(reason: str) -> bool:
    """Return whether a reason is one of not-applicable.txt."""
    return reason.split(maxsplit=1)[0] in REASONS


def methods_to_confirm(listed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the methods that are not applicable for a reason that only a run on Kafka can confirm.

    Their classes have no package.
    """
    methods: dict[str, list[str]] = {}
    for name, reason in listed.items():
        if is_not_applicable(reason) and not reason.startswith(INSIDE_KAFKA):
            class_name, _, method = name.rpartition(".")
            methods.setdefault(class_name, []).append(method)
    return methods


def faults(results: Iterable[Result], listed: Mapping[str, str], *, is_newest: bool = True) -> list[str]:
    """Return what is wrong with a run: tests that fail and are not listed, and listed ones that pass.

    The lists are made for the newest release. On others a listed test may pass.
    """
    wrong: list[str] = []
    outcomes: dict[str, set[str]] = {}
    for result in results:
        outcomes.setdefault(result.name, set()).add(result.outcome)
        if result.outcome != "failed":
            continue
        if result.name not in listed:
            wrong.append(f"FAILED {result.name} | {result.test} | {_first_lines(result.message)}")
        elif listed[result.name].startswith(INSIDE_KAFKA) and not result.is_inside_kafka:
            wrong.append(
                f"FAILED, though not INSIDE-KAFKA: {result.name} | {result.test} | {_first_lines(result.message)}"
            )
    wrong += [
        f"LISTED, but passes: {name}"
        for name in listed
        if is_newest and "passed" in outcomes.get(name, ()) and "failed" not in outcomes[name]
    ]
    return wrong


def _first_lines(message: str) -> str:
    return " ".join(message.splitlines()[:2])[:300]
