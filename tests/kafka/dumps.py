"""Kafka's DumpLogSegments, and what it may not say of a directory."""

import re
from pathlib import Path

from tests.kafka.oracle import Oracle

_WRONG = re.compile(r"isvalid: false|mismatch|corrupt|out of order|not found|error|exception|invalid", re.IGNORECASE)
_GAP = "Non-consecutive offsets"


def dump(oracle: Oracle, *arguments: str) -> str:
    """The output of the tool."""
    return "".join(oracle.run("kafka.tools.DumpLogSegments", *arguments))


def check_directory(oracle: Oracle, partition: Path, *, compacted: bool = False) -> None:
    """AssertionError if the tool finds something wrong in a partition's directory; a compacted one may have gaps."""
    files = sorted(str(path) for path in partition.iterdir())
    logs = [path for path in files if path.endswith(".log")]
    indexes = [path for path in files if path.endswith((".index", ".timeindex"))]
    others = [path for path in files if path.endswith((".snapshot", ".txnindex"))]
    assert logs
    records = dump(oracle, "--files", ",".join(logs), "--print-data-log")
    valid = re.findall(r"^(?:baseOffset|offset): .* isvalid: (\w+)$", records, re.MULTILINE)
    assert valid == ["true"] * len(re.findall(r"^(?:baseOffset|offset): ", records, re.MULTILINE))
    assert compacted or _GAP not in records
    sane = dump(oracle, "--files", ",".join(indexes), "--index-sanity-check")
    assert sane.count(" passed sanity check.") + sane.count(" is empty.") == len(indexes), sane
    for output in (
        records,
        dump(oracle, "--files", ",".join(indexes + others)),
        dump(oracle, "--files", ",".join(indexes), "--verify-index-only"),
    ):
        text = "\n".join(line for line in output.splitlines() if not line.startswith("| offset:"))
        found = _WRONG.search(text)
        assert found is None, f"{partition.name}: {text[max(0, found.start() - 300) : found.end() + 300]}"
