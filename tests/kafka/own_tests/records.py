"""The recorded numbers of Kafka's own tests, in files beside this one, and the tables that are made of them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.kafka.own_tests import applicability
from tests.kafka.own_tests.runs import Result

FOLDER: Final = Path(__file__).with_name("recorded")


class Tally(NamedTuple):
    """Numbers of tests: passed, failed as known-failures.txt explains, other failures, and not applicable."""

    passed: int
    explained: int
    unexplained: int
    not_applicable: int


Tallies: TypeAlias = Mapping[str, Mapping[str, Tally]]
"""Tallies by module and class."""


def tally(results: Iterable[Result], listed: Mapping[str, str]) -> Tally:
    """Count results by the lists of the tests that may fail."""
    numbers = dict.fromkeys(Tally._fields, 0)
    for result in results:
        if result.outcome == "passed":
            numbers["passed"] += 1
        elif result.outcome == "failed":
            reason = listed.get(result.name)
            if reason is None:
                numbers["unexplained"] += 1
            else:
                numbers["not_applicable" if applicability.is_not_applicable(reason) else "explained"] += 1
    return Tally(**numbers)


def total(tallies: Mapping[str, Tally]) -> Tally:
    """Add the tallies of classes."""
    return Tally(*map(sum, zip(Tally(0, 0, 0, 0), *tallies.values(), strict=True)))


def table(tallies: Mapping[str, Tally]) -> list[str]:
    """Return a table with a row for each name."""
    lines = ["| | passed | explained failures | other failures | not applicable |", "|---|---|---|---|---|"]
    return lines + [f"| {name} | " + " | ".join(map(str, row)) + " |" for name, row in tallies.items()]


def save(version: str, tallies: Tallies) -> None:
    """Record the tallies of a release in the place of those of the same classes."""
    recorded: dict[str, dict[str, Tally]] = {module: dict(classes) for module, classes in load(version).items()}
    for module, classes in tallies.items():
        recorded[module] = dict(sorted({**recorded.get(module, {}), **classes}.items()))
    FOLDER.mkdir(exist_ok=True)
    # A line for each class.
    modules = [
        json.dumps(module)
        + ": {\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in classes.items())
        + "\n}"
        for module, classes in recorded.items()
    ]
    (FOLDER / f"{version}.json").write_text("{" + ",\n".join(modules) + "}\n")


def load(version: str) -> Tallies:
    """Read the recorded tallies of a release, none if there are none."""
    file = FOLDER / f"{version}.json"
    if not file.exists():
        return {}
    modules = json.loads(file.read_text())
    return {module: {name: Tally(*row) for name, row in classes.items()} for module, classes in modules.items()}


def sections() -> list[str]:
    """Return the lines about Kafka's own tests in docs/compatibility.md."""
    versions = sorted((file.stem for file in FOLDER.glob("*.json")), reverse=True)
    lines = ["## Kafka's own tests", "", _HEAD]
    for version in versions:
        tallies = {module: classes for module, classes in load(version).items() if classes}
        lines += ["", f"### Kafka {version}", ""]
        lines += table({f"**{module}**": total(classes) for module, classes in tallies.items()})
    for module, classes in load(versions[0]).items() if versions else ():
        short = {".".join(name.split(".")[-2:]): row for name, row in classes.items() if any(row)}
        if not short:
            continue
        lines += ["", f"### Kafka {versions[0]}: classes of {module}", "", *table(short)]
    return lines


_HEAD: Final = """\
The released test jars of Apache Kafka run against minibroker with `--emulate`. These tests start brokers with
`KafkaClusterTestKit` and `KRaftQuorumImplementation`, which are replaced by classes that start minibroker. Some tests
use a Java object of Kafka's broker, KRaft's controllers, or the metrics of a broker in their own JVM. Such tests cannot
apply to another broker: `tests/kafka/own_tests/not-applicable.txt` lists these methods with the reasons.
`known-failures.txt` in the same folder explains the other failures. A failure that is on neither list fails the run. A
test with parameters counts once for each of their values. The tables have the classes whose results are recorded.
`make torture ARGS=own-tests` runs the tests."""
