"""The command line: `minibroker-pipeline JOB ...`."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND: Final = 1
"""The exit status of `verify` when there is damage, and of `diff` when there are differences."""
FAILED: Final = 2
_OURS: Final = re.compile(r"^minibroker_[\w.]+: (.+)$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; returns the exit status."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is not installed; pip install 'minibroker[spark]' brings it")
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        return _fail(message)


def _message(error: Exception) -> str | None:
    """What an error that is meant for users says; None of others.

    What is raised in Spark's tasks arrives as text, at the end of a traceback.
    """
    module = type(error).__module__
    if module.startswith(("pyspark.errors", "py4j.")):
        ours = _OURS.findall(str(error))
        return ours[-1] if ours else next(iter(str(error).strip().splitlines()), type(error).__name__)
    return str(error) if isinstance(error, ValueError) or module.startswith("minibroker_") else None


def _fail(message: str) -> int:
    sys.stderr.write(f"minibroker-pipeline: {message}\n")
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minibroker-pipeline",
        description="Jobs over log directories of minibroker and of Apache Kafka. No broker is needed; one may run.",
    )
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    _add_stats(jobs)
    _add_verify(jobs)
    _add_diff(jobs)
    _add_export(jobs)
    return parser


def _add_job(jobs: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
    job: argparse.ArgumentParser = jobs.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    job.set_defaults(run=run)
    job.add_argument(
        "--topic", action="append", default=[], dest="topics", metavar="NAME", help="only this one; again for more"
    )
    job.add_argument(
        "--master", metavar="URL", help='run as Spark tasks there, such as "local[4]" or "spark://host:7077"'
    )
    return job


def _add_paths(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "paths", nargs="+", metavar="DIR", help="a data directory, or a partition's; or an address (s3://...)"
    )


def _add_local(job: argparse.ArgumentParser) -> None:
    """Of jobs that run without Spark, too."""
    job.add_argument("--processes", type=_positive, metavar="N", help="without --master; default: as many as pay")
    job.add_argument(
        "--json", metavar="FILE", help="write the report as JSON; - is standard output, instead of the table"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _add_stats(jobs: Any) -> None:
    job = _add_job(jobs, "stats", _run_stats, "measure what formats and codecs take on disk")
    _add_paths(job)
    _add_local(job)
    job.add_argument(
        "--by", choices=("partition", "topic"), default="partition", help="a line for each (default: partition)"
    )
    job.add_argument("--html", metavar="FILE", help="write a page with plots")


def _run_stats(options: argparse.Namespace) -> int:
    from minibroker_pipeline.jobs.stats import stats  # noqa: PLC0415 - `--help` needs none of it
    from minibroker_pipeline.jobs.stats_page import stats_html, stats_text  # noqa: PLC0415 - as above

    report = stats(options.paths, topics=options.topics, spark=_session(options), processes=options.processes)
    _tell(options, report.as_json(options.by), stats_text(report, options.by))
    if options.html:
        _write(options.html, stats_html(report))
    return 0


def _add_verify(jobs: Any) -> None:
    job = _add_job(jobs, "verify", _run_verify, "look for damage; the exit status is 1 when there is some")
    _add_paths(job)
    _add_local(job)
    option = job.add_argument
    option(
        "--compacted",
        action="append",
        default=[],
        metavar="PATTERN",
        help="topics that may have gaps, such as 'users-*'",
    )
    option("--index-interval-bytes", type=_positive, metavar="N", help="the topics' index.interval.bytes, if known")


def _run_verify(options: argparse.Namespace) -> int:
    from minibroker_pipeline.jobs.verify import VerifySettings, verify  # noqa: PLC0415 - as above

    settings = VerifySettings(
        topics=tuple(options.topics),
        compacted=tuple(options.compacted),
        index_interval_bytes=options.index_interval_bytes,
    )
    report = verify(options.paths, settings, spark=_session(options), processes=options.processes)
    _tell(options, report.as_json(), report.as_text())
    return 0 if report.is_sound else FOUND


def _add_diff(jobs: Any) -> None:
    job = _add_job(jobs, "diff", _run_diff, "compare two directories; the exit status is 1 when they differ")
    job.add_argument("left", metavar="LEFT", help="a data directory, or a partition's; or an address")
    job.add_argument("right", metavar="RIGHT", help="another one")
    _add_local(job)
    _add_reading(job, isolation="read_uncommitted")
    job.add_argument(
        "--by-content", action="store_true", help="records may be at any offset and partition of their topic"
    )
    job.add_argument("--columns", metavar="NAMES", help="what has to be equal (default: key,value,headers,timestamp)")


def _run_diff(options: argparse.Namespace) -> int:
    from minibroker_pipeline.jobs.diff import COLUMNS, DiffSettings, diff  # noqa: PLC0415 - as above

    settings = DiffSettings(
        topics=tuple(options.topics),
        by_content=options.by_content,
        columns=tuple(options.columns.split(",")) if options.columns else COLUMNS,
        isolation=options.isolation,
        mode=options.mode,
    )
    report = diff(options.left, options.right, settings, spark=_session(options), processes=options.processes)
    _tell(options, report.as_json(), report.as_text())
    return 0 if report.is_equal else FOUND


def _add_reading(job: argparse.ArgumentParser, isolation: str) -> None:
    option = job.add_argument
    levels = ("read_committed", "read_uncommitted")
    option("--isolation", choices=levels, default=isolation, help=f"default: {isolation}")
    option(
        "--mode", choices=("failfast", "permissive"), default="failfast", help="permissive leaves out damaged batches"
    )


def _add_export(jobs: Any) -> None:
    job = _add_job(jobs, "export", _run_export, "write Parquet, in folders of topics and days")
    _add_paths(job)
    _add_reading(job, isolation="read_committed")
    option = job.add_argument
    option("--to", required=True, metavar="DIR", dest="target", help="where the folders are made")
    option("--json-schema", metavar="DDL", help='values are JSON with these columns, such as "id BIGINT, name STRING"')
    option("--keep-corrupt", action="store_true", help="values that are no such JSON go to the column corrupt")
    option("--save", choices=("error", "append", "overwrite", "ignore"), default="error", help="if the target is there")


def _run_export(options: argparse.Namespace) -> int:
    from minibroker_pipeline.jobs.export import ExportSettings, export  # noqa: PLC0415 - as above
    from minibroker_pipeline.messages import Payload  # noqa: PLC0415 - as above

    schema = options.json_schema
    if options.keep_corrupt and not schema:
        raise ValueError("--keep-corrupt is of use with --json-schema only")
    payload = Payload("json", schema, "permissive" if options.keep_corrupt else "failfast") if schema else Payload()
    settings = ExportSettings(
        topics=tuple(options.topics),
        payload=payload,
        isolation=options.isolation,
        mode=options.mode,
        save=options.save,
    )
    spark = _session(options, is_needed=True)
    assert spark is not None
    export(spark, options.paths, options.target, settings)
    return 0


def _session(options: argparse.Namespace, *, is_needed: bool = False) -> "SparkSession | None":
    if not (is_needed or options.master):
        return None
    from minibroker_pipeline.session import spark_session  # noqa: PLC0415 - as above

    return spark_session(f"minibroker-pipeline {options.job}", master=options.master, packages=())


def _tell(options: argparse.Namespace, report: dict[str, Any], text: str) -> None:
    if options.json == "-":
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    sys.stdout.write(text)
    if options.json:
        _write(options.json, json.dumps(report, indent=2) + "\n")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
