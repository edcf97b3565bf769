"""`minibroker-pipeline verify`: look for damage."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import FOUND, add_job, add_local, add_paths, positive, session_for, tell


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "verify", run, "look for damage; the exit status is 1 when there is some")
    add_paths(job)
    add_local(job)
    option = job.add_argument
    option(
        "--compacted",
        action="append",
        default=[],
        metavar="PATTERN",
        help="topics that may have gaps, such as 'users-*'",
    )
    option("--index-interval-bytes", type=positive, metavar="N", help="the topics' index.interval.bytes, if known")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.verify import VerifySettings, verify  # noqa: PLC0415 - `--help` needs none of it

    settings = VerifySettings(
        topics=tuple(options.topics),
        compacted=tuple(options.compacted),
        index_interval_bytes=options.index_interval_bytes,
    )
    report = verify(options.paths, settings, spark=session_for(options), processes=options.processes)
    tell(options, report.as_json(), report.as_text())
    return 0 if report.is_sound else FOUND
