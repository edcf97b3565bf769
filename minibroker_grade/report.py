"""Reports results as text, JSON and JUnit XML. The files are rewritten after each check and are always complete."""

import errno
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from minibroker_grade.check import Stage
from minibroker_grade.runner import Result


class Report:
    """Collects the results. The files contain all results so far, even if the grader is killed.

    Args:
        address: The broker's address.
        selected: The number of selected checks.
        json_file: The JSON file, or None. A regular file is written after each result, a device or a pipe only at the
            end.
        junit_file: The JUnit XML file, or None, written like the JSON file.
    """

    def __init__(self, address: str, selected: int, json_file: str | None, junit_file: str | None) -> None:
        """Write the files without any results yet.

        Raises:
            OSError: A file cannot be written.
        """
        self.results: list[Result] = []
        self._address = address
        self._selected = selected
        self._json_file = json_file
        self._junit_file = junit_file
        self._write_files()

    def add(self, result: Result) -> None:
        """Add a result and rewrite the files.

        Raises:
            OSError: A file cannot be written.
        """
        self.results.append(result)
        self._write_files()

    def end(self) -> None:
        """Write the files for the last time, including devices and pipes.

        Raises:
            OSError: A file cannot be written.
        """
        self._write_files(is_end=True)

    def json(self) -> str:
        """Return all results as one JSON object."""
        checks = [_encode_result(result) for result in self.results]
        return json.dumps({"broker": self._address, "chosen": self._selected, "checks": checks}, indent=2) + "\n"

    def junit(self) -> str:
        """Return all results as JUnit XML, with one suite per stage."""
        root = ET.Element("testsuites", name=f"minibroker grade {self._address}")
        suites: dict[str, list[Result]] = {}
        for result in self.results:
            suites.setdefault(result.check.stage, []).append(result)
        for stage, stage_results in suites.items():
            suite = ET.SubElement(root, "testsuite", {"name": stage, **_suite_attributes(stage_results)})
            for result in stage_results:
                name = result.check.name.partition("/")[2]
                case = ET.SubElement(
                    suite, "testcase", classname=f"grade.{stage}", name=name, time=f"{result.seconds:.3f}"
                )
                if result.outcome == "skipped":
                    ET.SubElement(case, "skipped", message=result.reason)
                elif result.outcome != "passed":
                    failure = ET.SubElement(case, "failure", message=result.reason)
                    failure.text = failure_text(result)
        ET.indent(root)
        xml: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        return xml.decode() + "\n"

    def _write_files(self, *, is_end: bool = False) -> None:
        for path, content in ((self._json_file, self.json), (self._junit_file, self.junit)):
            if path is not None and (is_end or not _is_device(path)):
                _replace_file(path, content())


def failure_text(result: Result) -> str:
    """Return a failed check as text, one part after another."""
    failure = result.failure
    head = "the broker died" if result.outcome == "died" else "failed"
    lines = [f"{result.check.name}: {head}" + (f": {result.reason}" if result.outcome == "died" else "")]
    lines += ["  sent:", *_indent_lines(failure["sent"])]
    lines += ["  came:", *_indent_lines(failure["came"])]
    lines += [f"  expected: {failure['expected']}", f"  why: {failure['why']}"]
    lines += [f"  first byte that differs: {failure['byte']}", f"  look next: {failure['look']}"]
    return "\n".join(lines)


def summary(stages: Sequence[Stage], results: Sequence[Result], selected: int) -> str:
    """Return one line per stage and one for all stages. `selected` is the number of selected checks."""
    lines = [f"stopped after {len(results)} of {selected} checks"] if len(results) < selected else []
    for stage in stages:
        stage_results = [result for result in results if result.check.stage == stage.name]
        if stage_results:
            lines.append(f"{stage.title:24} {_format_counts(stage_results)}")
    lines.append(f"{'all':24} {_format_counts(results)}")
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.outcome == "skipped":
            reasons.setdefault(result.reason, []).append(result.check.name)
    for reason, names in reasons.items():
        others = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - a line's worth
        lines.append(f"skipped, {reason}: {', '.join(names[:3])}{others}")
    return "\n".join(lines)


def _encode_result(result: Result) -> dict[str, Any]:
    return {
        "name": result.check.name,
        "stage": result.check.stage,
        "outcome": result.outcome,
        "seconds": round(result.seconds, 3),
        "teaches": result.check.teaches,
        "source": result.check.source,
        **({"reason": result.reason} if result.reason else {}),
        **({"failure": result.failure} if result.failure else {}),
    }


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _replace_file(path: str, content: str) -> None:
    """Replace the file atomically, so that a kill leaves either the old or the new content.

    Raises:
        OSError: The file cannot be written.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    is_device = _is_device(path)
    written = path if is_device else f"{os.path.realpath(path)}.new"
    with open(written, "w", encoding="utf-8") as file:
        file.write(content)
    if not is_device:
        os.replace(written, os.path.realpath(path))


def _suite_attributes(results: Sequence[Result]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(result.has_failed for result in results)),
        "skipped": str(sum(result.outcome == "skipped" for result in results)),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _format_counts(results: Sequence[Result]) -> str:
    counted = [result for result in results if result.outcome != "skipped"]
    passed = sum(result.outcome == "passed" for result in counted)
    skipped = len(results) - len(counted)
    return f"{passed} of {len(counted)}" + (f", {skipped} skipped" if skipped else "")


def _indent_lines(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
