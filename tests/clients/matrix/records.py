"""The recorded runs, in files beside this one, and the page that is made of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tests.clients.matrix.clients import DRIVERS
from tests.clients.matrix.features import FEATURES, FRAMEWORKS
from tests.clients.matrix.known import KNOWN, NOT_OURS
from tests.kafka.own_tests import records as own_tests

FOLDER: Final = Path(__file__).with_name("recorded")
PAGE: Final = Path(__file__).parents[3] / "docs" / "compatibility.md"
KAFKAS: Final = ("kafka-3.9.1", "kafka-4.4.0")
OURS: Final = "minibroker"

Record: TypeAlias = dict[str, dict[str, bool]]
"""For each driver and each of its checks: whether it passed."""


def load(name: str) -> Record:
    """A recorded run; empty when there is none."""
    path = FOLDER / f"{name}.json"
    record: Record = json.loads(path.read_text()) if path.exists() else {}
    return record


def save(name: str, results: Mapping[str, Mapping[str, str]]) -> None:
    """Put the results of these drivers in the place of those that were recorded before."""
    record = load(name)
    for driver, checks in results.items():
        record[driver] = {**record.get(driver, {}), **{check: not error for check, error in checks.items()}}
    ordered = {
        driver: {check: record[driver][check] for check in FEATURES if check in record[driver]}
        for driver in DRIVERS
        if driver in record
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(ordered, indent=1) + "\n")


def passes_on_kafka(driver: str, check: str) -> bool:
    """Whether it passed on one of the recorded releases."""
    return any(load(kafka).get(driver, {}).get(check, False) for kafka in KAFKAS)


def page() -> str:
    """The page, from the recorded runs."""
    ours = load(OURS)
    everything = [name for name in DRIVERS if name in ours]
    names = [name for name in everything if not ours[name].keys() <= FRAMEWORKS.keys()]
    lines = [
        _HEAD,
        _tally(ours, everything, len(names)),
        "",
        "## The clients",
        "",
        "| | client | passed | offered |",
        "|---|---|---|---|",
    ]
    for number, name in enumerate(names, 1):
        checks = ours[name]
        lines.append(f"| {number} | {DRIVERS[name].title} | {sum(checks.values())} | {len(checks)} |")
    lines += ["", "## The table", "", _LEGEND, ""]
    lines += [
        "| | " + " | ".join(str(number) for number in range(1, len(names) + 1)) + " |",
        "|---|" + "---|" * len(names),
    ]
    for feature, title in FEATURES.items():
        if any(feature in ours[name] for name in names):
            lines.append(f"| {title} | " + " | ".join(_cell(ours[name], name, feature) for name in names) + " |")
    lines += ["", "## Programs that move data", "", _FRAMEWORKS, "", "| | |", "|---|---|"]
    for name in (name for name in everything if name not in names):
        lines += [f"| **{DRIVERS[name].title}** | |"]
        lines += [f"| {FEATURES[check]} | {_cell(ours[name], name, check)} |" for check in ours[name]]
    if KNOWN:
        lines += ["", "## What fails here", ""]
        lines += [f"- {DRIVERS[name].title}: {FEATURES[check]}. {reason}" for (name, check), reason in KNOWN.items()]
    lines += ["", "## What fails with Kafka, too", ""]
    lines += [
        f"- {DRIVERS[name].title}: {FEATURES[check]}. {reason}"
        for (name, check), reason in NOT_OURS.items()
        if name in everything and not ours[name].get(check, True)
    ]
    lines += ["", *own_tests.sections()]
    return "\n".join(lines) + "\n"


def _tally(ours: Record, names: list[str], clients: int) -> str:
    passed = sum(passing for name in names for passing in ours[name].values())
    missing = [
        (name, check)
        for name in names
        for check, passing in ours[name].items()
        if not passing and passes_on_kafka(name, check)
    ]
    rest = (
        f"{len(missing)} checks that pass on Kafka fail here" if missing else "No check that passes on Kafka fails here"
    )
    return f"{clients} clients and {len(names) - clients} programs that move data pass {passed} checks. {rest}."


def _cell(checks: dict[str, bool], name: str, feature: str) -> str:
    if feature not in checks:
        return " "
    if checks[feature]:
        return "✓"
    return "✗" if passes_on_kafka(name, feature) else "·"


_HEAD: Final = """\
# Clients and what they can do

<!-- Made by `python -m tests.clients.matrix --record`. -->

Use this page to look up your client and the feature that you need.

Real clients of each family, including versions from 2018 on, have run the same checks on minibroker, and on
Apache Kafka 3.9.1 and 4.4.0. A check that passes on one of the two Kafkas has to pass on minibroker.
To see what a check does, read its few lines of code in your client's language in `tests/clients/matrix`; `make torture`
runs it.
"""

_LEGEND: Final = """\
✓ means that the check passes on minibroker and on at least one Kafka. ✗ means that it passes on Kafka, but fails on
minibroker. · means that it fails on both. An empty cell means that the client does not have the feature. The numbers of
the columns are those of the clients above."""

_FRAMEWORKS: Final = """\
Kafka Connect, MirrorMaker 2 and Flink have their own checks, which run one after another. Each program has one or
several JVMs, and up to two minutes for a check. `make torture` runs Connect's checks; those of the other programs run
only when results are recorded. MirrorMaker runs between the broker, a second minibroker and a Kafka 3.9.1. The tests in
`tests/pipeline` check what Spark's connector and minibroker's own can do beyond the table."""
