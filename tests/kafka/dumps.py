"""Kafka's DumpLogSegments, and what it may not say of a directory."""

import re
from pathlib import Path

from tests.kafka.oracle import Oracle

_WRONG = re.compile(
    r"isvalid: false|mismatch|corrupt|out of order|non-?consecutive|error|exception|invalid", re.IGNORECASE
)


def dump(oracle: Oracle, *arguments: str) -> str:
    """What the tool prints."""
    return oracle.run("kafka.tools.DumpLogSegments", *arguments)


def check_directory(oracle: Oracle, partition: Path) -> None:
    """AssertionError if the tool finds something wrong in a partition's directory."""
    files = sorted(str(path) for path in partition.iterdir())
    logs = [path for path in files if path.endswith(".log")]
    indexes = [path for path in files if path.endswith((".index", ".timeindex"))]
    others = [path for path in files if path.endswith((".snapshot", ".txnindex"))]
    assert logs
    said = [dump(oracle, "--files", ",".join(logs), "--print-data-log")]
    said += [dump(oracle, "--files", ",".join(indexes + others))]
    said += [dump(oracle, "--files", ",".join(indexes), "--verify-index-only")]
    sane = dump(oracle, "--files", ",".join(indexes), "--index-sanity-check")
    assert sane.count(" passed sanity check.") + sane.count(" is empty.") == len(indexes), sane
    for text in said:
        headers = "\n".join(line for line in text.splitlines() if not line.startswith("| offset:"))
        found = _WRONG.search(headers)
        assert found is None, f"{partition.name}: {headers[max(0, found.start() - 300) : found.end() + 300]}"
    assert re.findall(r"isvalid: (\w+)", said[0]).count("true") == len(
        re.findall(r"^(?:baseOffset|offset): ", said[0], re.MULTILINE)
    )
