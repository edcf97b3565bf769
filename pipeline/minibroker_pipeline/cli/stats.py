"""`minibroker-pipeline stats`: measure what formats and codecs take."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import add_job, add_local, add_paths, session_for, tell, write_text


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "stats", run, "measure what formats and codecs take on disk")
    add_paths(job)
    add_local(job)
    job.add_argument(
        "--by", choices=("partition", "topic"), default="partition", help="one line for each (default: partition)"
    )
    job.add_argument("--html", metavar="FILE", help="write a page with plots")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.stats import stats  # noqa: PLC0415 - `--help` needs none of it
    from minibroker_pipeline.jobs.stats_page import stats_html, stats_text  # noqa: PLC0415 - as above

    report = stats(options.paths, topics=options.topics, spark=session_for(options), processes=options.processes)
    tell(options, report.as_json(options.by), stats_text(report, options.by))
    if options.html:
        write_text(options.html, stats_html(report))
    return 0
