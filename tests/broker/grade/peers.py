"""Two brokers by other authors, with their results on the page and in a run."""

import dataclasses
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks import kfake_program
from minibroker_grade.catalogue import select_checks
from minibroker_grade.process import BrokerProcess, free_port
from minibroker_grade.runner import Target, run
from tests.documented import ROOT

_SILENT = "versions/an-impossible-length-ends-the-connection"
_SILENT_S = 2.0
"""The limit of the check in which both brokers leave the connection open. They also fail it with a short limit."""
_WITHOUT = {"clients/the-java-client-produces-and-consumes", "clients/the-java-client-runs-a-transaction"}


class Stage(NamedTuple):
    """The results of one stage.

    Attributes:
        run: The number of checks that were not skipped.
        failed: The failed checks, without the name of the stage.
        findings: Sentences that describe the failures.
    """

    run: int
    failed: frozenset[str] = frozenset()
    findings: str = ""


def _failed(names: str) -> frozenset[str]:
    return frozenset(names.split())


KFAKE: Mapping[str, Stage] = {
    "versions": Stage(
        14,
        _failed(
            "an-unknown-version-is-answered-in-version-0-with-error-35 the-refusal-names-the-versions-of-apiversions "
            "the-connection-goes-on-after-the-refusal an-impossible-length-ends-the-connection "
            "an-unknown-api-ends-the-connection"
        ),
        "An unknown version of ApiVersions closes the connection. A negative length leaves it open. An unknown API key "
        "ends the process.",
    ),
    "flexible": Stage(11),
    "metadata": Stage(
        18, _failed("a-name-that-no-topic-can-have-has-error-17"), "A name that no topic can have has error 3, not 17."
    ),
    "topics": Stage(
        17,
        _failed(
            "an-impossible-name-has-error-17 a-name-that-is-too-long-has-error-17 a-bad-configuration-has-error-40"
        ),
        "Names with a space, names of 250 characters and `retention.ms=soon` are accepted.",
    ),
    "produce": Stage(
        21,
        _failed(
            "a-wrong-record-count-has-error-87 two-batches-for-a-partition-are-refused a-compacted-topic-wants-keys "
            "log-append-time-is-told"
        ),
        "A wrong record count and a second batch have error 2, not 87. A compacted topic takes records without keys. "
        "The log append time is -1.",
    ),
    "fetch": Stage(28),
    "list-offsets": Stage(12),
    "files": Stage(
        12,
        _failed(
            "a-partition-has-a-directory-and-a-first-segment a-segment-is-its-batches "
            "fetch-returns-the-bytes-of-the-file segments-are-named-by-their-first-offset "
            "index-entries-lead-to-batches time-index-entries-rise-and-are-true the-directory-knows-the-topics-id "
            "half-a-batch-is-cut-off"
        ),
        "Its files are its own: there is no directory for a partition. Records, topics and commits outlive a kill.",
    ),
    "groups": Stage(
        22,
        _failed(
            "only-an-empty-group-can-be-deleted without-a-commit-the-offset-is-minus-1 groups-do-not-share-offsets "
            "too-much-metadata-has-error-12"
        ),
        "OffsetFetch of a group without commits has error 69 and no partitions; Kafka answers with offset -1. "
        "Metadata of a commit may have any length.",
    ),
    "transactions": Stage(
        20,
        _failed(
            "offsets-of-a-transaction-count-with-its-commit pending-offsets-are-unstable "
            "offsets-of-an-aborted-transaction-are-dropped"
        ),
        "As above: pending offsets are seen with OffsetFetch.",
    ),
    "clients": Stage(3),
}

MOCK: Mapping[str, Stage] = {
    "versions": Stage(
        14,
        _failed(
            "an-unknown-version-is-answered-in-version-0-with-error-35 the-refusal-names-the-versions-of-apiversions "
            "the-connection-goes-on-after-the-refusal an-impossible-length-ends-the-connection"
        ),
        "An unknown version of ApiVersions is answered, but not in the form of version 0. A negative length leaves the "
        "connection open.",
    ),
    "flexible": Stage(
        3,
        _failed(
            "other-flexible-responses-have-tags-in-their-header a-compact-string-may-need-two-bytes-of-length "
            "a-compact-array-may-need-two-bytes-of-length"
        ),
        "Metadata 9 ends with one byte too many.",
    ),
    "metadata": Stage(
        10,
        _failed(
            "the-brokers-are-listed the-advertised-address-leads-back the-controller-is-one-of-the-brokers "
            "the-cluster-has-an-id an-unknown-topic-has-error-3 asking-creates-nothing-when-that-is-forbidden "
            "a-name-that-no-topic-can-have-has-error-17 an-unknown-id-has-error-100 "
            "describecluster-knows-the-same-cluster the-coordinator-is-one-of-the-brokers"
        ),
        "The same byte.",
    ),
    "topics": Stage(1, _failed("a-given-assignment-is-used"), "The same byte."),
    "produce": Stage(1),
}


def table(stages: Mapping[str, Stage]) -> str:
    """Return the table for the page."""
    rows = [
        f"| `{name}` | {stage.run - len(stage.failed)} of {stage.run} | {stage.findings and f'{stage.findings} '}|"
        for name, stage in stages.items()
    ]
    return "\n".join(["| stage | passed | findings |", "|---|---|---|", *rows])


@contextmanager
def kfake() -> Generator[Target]:
    """Run kfake. The grader restarts it after it has ended.

    Raises:
        NoKfakeError: Go cannot build kfake.
    """
    program = kfake_program.find()
    with tempfile.TemporaryDirectory(prefix="minibroker-kfake-") as directory:
        address = ("127.0.0.1", free_port())
        process = BrokerProcess(f"{program} {{port}} {{dir}}", address, directory)
        with process.running():
            yield Target(address, directory, process)


@contextmanager
def mock() -> Generator[Target]:
    """Run librdkafka's mock broker in its own process."""
    command = [sys.executable, "-m", "benchmarks.mock_cluster"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            host, _, port = process.stdout.readline().strip().rpartition("=")[2].rpartition(":")
            yield Target((host, int(port)))
        finally:
            process.send_signal(signal.SIGTERM)


def grade(target: Target, stages: Mapping[str, Stage]) -> dict[str, Stage]:
    """Return the results of these stages, without findings."""
    checks = [
        dataclasses.replace(check, limit=_SILENT_S) if check.name == _SILENT else check
        for check in select_checks()
        if check.stage in stages and check.name not in _WITHOUT
    ]
    results = list(run(target, checks))
    stage_results: dict[str, Stage] = {}
    for stage in stages:
        ran = [result for result in results if result.check.stage == stage and result.outcome != "skipped"]
        failed = frozenset(result.check.name.removeprefix(f"{stage}/") for result in ran if result.has_failed)
        stage_results[stage] = Stage(len(ran), failed)
    return stage_results
