"""`minibroker-pipeline diff`: compare two directories."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import FOUND, add_job, add_local, add_reading, session_for, tell


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "diff", run, "compare two directories; the exit status is 1 when they differ")
    job.add_argument("left", metavar="LEFT", help="a data directory, or a partition's; or an address")
    job.add_argument("right", metavar="RIGHT", help="another one")
    add_local(job)
    add_reading(job, isolation="read_uncommitted")
    job.add_argument(
        "--by-content", action="store_true", help="ignore offsets and partitions: compare the records of each topic"
    )
    job.add_argument("--columns", metavar="NAMES", help="columns to compare (default: key,value,headers,timestamp)")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.diff import COLUMNS, DiffSettings, diff  # noqa: PLC0415 - `--help` needs none of it

    settings = DiffSettings(
        topics=tuple(options.topics),
        by_content=options.by_content,
        columns=tuple(options.columns.split(",")) if options.columns else COLUMNS,
        isolation=options.isolation,
        mode=options.mode,
    )
    report = diff(options.left, options.right, settings, spark=session_for(options), processes=options.processes)
    tell(options, report.as_json(), report.as_text())
    return 0 if report.is_equal else FOUND
