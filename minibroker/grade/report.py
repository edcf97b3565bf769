"""The outcome of a run: lines for people, JSON, and JUnit XML."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from minibroker.grade.check import Stage
from minibroker.grade.runner import Result


def failure_text(result: Result) -> str:
    """A failed check, part by part."""
    failure = result.failure
    head = "the broker died" if result.outcome == "died" else "failed"
    lines = [f"{result.check.name}: {head}" + (f": {result.reason}" if result.outcome == "died" else "")]
    lines += ["  sent:", *_indented(failure["sent"])]
    lines += ["  came:", *_indented(failure["came"])]
    lines += [f"  expected: {failure['expected']}", f"  why: {failure['why']}"]
    lines += [f"  first byte that differs: {failure['byte']}", f"  look next: {failure['look']}"]
    return "\n".join(lines)


def summary(stages: Sequence[Stage], results: Sequence[Result]) -> str:
    """A line for each stage, and one for all of them."""
    lines: list[str] = []
    for stage in stages:
        mine = [result for result in results if result.check.stage == stage.name]
        if mine:
            lines.append(f"{stage.title:24} {_counts(mine)}")
    lines.append(f"{'all':24} {_counts(results)}")
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.outcome == "skipped":
            reasons.setdefault(result.reason, []).append(result.check.name)
    for reason, names in reasons.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - a line's worth
        lines.append(f"skipped, {reason}: {', '.join(names[:3])}{more}")
    return "\n".join(lines)


def as_json(address: str, results: Iterable[Result]) -> str:
    """All results as one JSON object."""
    checks = [
        {
            "name": result.check.name,
            "stage": result.check.stage,
            "outcome": result.outcome,
            "seconds": round(result.seconds, 3),
            "teaches": result.check.teaches,
            "source": result.check.source,
            **({"reason": result.reason} if result.reason else {}),
            **({"failure": result.failure} if result.failure else {}),
        }
        for result in results
    ]
    return json.dumps({"broker": address, "checks": checks}, indent=2) + "\n"


def as_junit(address: str, results: Sequence[Result]) -> bytes:
    """All results as JUnit XML: a suite for each stage."""
    root = ET.Element("testsuites", name=f"minibroker grade {address}")
    suites: dict[str, list[Result]] = {}
    for result in results:
        suites.setdefault(result.check.stage, []).append(result)
    for stage, mine in suites.items():
        suite = ET.SubElement(root, "testsuite", {"name": stage, **_numbers(mine)})
        for result in mine:
            name = result.check.name.partition("/")[2]
            case = ET.SubElement(suite, "testcase", classname=f"grade.{stage}", name=name, time=f"{result.seconds:.3f}")
            if result.outcome == "skipped":
                ET.SubElement(case, "skipped", message=result.reason)
            elif result.outcome != "passed":
                failure = ET.SubElement(case, "failure", message=result.reason)
                failure.text = failure_text(result)
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _numbers(results: Sequence[Result]) -> dict[str, str]:
    counts: dict[str, Any] = {
        "tests": len(results),
        "failures": sum(result.outcome in {"failed", "died"} for result in results),
        "skipped": sum(result.outcome == "skipped" for result in results),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }
    return {name: str(value) for name, value in counts.items()}


def _counts(results: Sequence[Result]) -> str:
    counted = [result for result in results if result.outcome != "skipped"]
    passed = sum(result.outcome == "passed" for result in counted)
    skipped = len(results) - len(counted)
    return f"{passed} of {len(counted)}" + (f", {skipped} skipped" if skipped else "")


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
