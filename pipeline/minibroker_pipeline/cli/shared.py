"""Options that several jobs share, the Spark session of a job, and the output of its report."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND: Final = 1
"""The exit status of `verify` when there is damage, and of `diff` when there are differences."""
FAILED: Final = 2


def add_job(
    jobs: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, *, chooses_topics: bool = True
) -> argparse.ArgumentParser:
    """A job with the options that all have, and those that choose what it reads of log directories."""
    job: argparse.ArgumentParser = jobs.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    job.set_defaults(run=run)
    if chooses_topics:
        job.add_argument(
            "--topic", action="append", default=[], dest="topics", metavar="NAME", help="only this topic (repeatable)"
        )
    job.add_argument(
        "--master", metavar="URL", help='run as Spark tasks there, such as "local[4]" or "spark://host:7077"'
    )
    return job


def add_paths(job: argparse.ArgumentParser) -> None:
    """Of jobs that read any number of directories."""
    job.add_argument(
        "paths", nargs="+", metavar="DIR", help="a data directory, or a partition's; or an address (s3://...)"
    )


def add_local(job: argparse.ArgumentParser) -> None:
    """Of jobs that run without Spark, too."""
    job.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help="number of processes, without --master (default: by the amount of work)",
    )
    job.add_argument(
        "--json", metavar="FILE", help="write the report as JSON; - is standard output, instead of the table"
    )


def positive(text: str) -> int:
    """A type of options."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def add_reading(job: argparse.ArgumentParser, isolation: str) -> None:
    """Of jobs that read records as the data source does."""
    option = job.add_argument
    levels = ("read_committed", "read_uncommitted")
    option("--isolation", choices=levels, default=isolation, help=f"default: {isolation}")
    option(
        "--mode", choices=("failfast", "permissive"), default="failfast", help="permissive leaves out damaged batches"
    )


def session_for(
    options: argparse.Namespace, *, is_needed: bool = False, packages: Sequence[str] = ()
) -> "SparkSession | None":
    """The session that a job asks for: none without `--master` or `spark-submit`, unless it `is_needed`."""
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # as `session` has it, which would load PySpark
    if not (is_needed or is_submitted or options.master):
        return None
    from minibroker_pipeline.session import spark_session  # noqa: PLC0415 - most jobs need no Spark

    return spark_session(f"minibroker-pipeline {options.job}", master=options.master, packages=packages)


def tell(options: argparse.Namespace, report: dict[str, Any], text: str) -> None:
    """Print a report, and write it where `--json` says."""
    if options.json == "-":
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    sys.stdout.write(text)
    if options.json:
        write_text(options.json, json.dumps(report, indent=2) + "\n")


def write_text(path: str, text: str) -> None:
    """A file as a user wants it. `OSError`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
