"""The command line: `minibroker-pipeline JOB ...`."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from minibroker_storage.installation_hints import missing

FAILED: Final = 2
_OWN_ERROR: Final = re.compile(r"^minibroker_[\w.]+: (.+)$", re.MULTILINE)
_CALL: Final = re.compile(r"^An error occurred while calling \S+\n: (?:[\w.$]+: )?")
"""Py4J's prefix for a JVM error without a class in PySpark."""
_MISSING: Final = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'$", re.MULTILINE)
_REPEATED: Final[dict[str, Any]] = {"action": "append", "default": []}
_CHECKOUT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job and return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["bench"]:
        return _run_benchmark(arguments[1:])
    options = _build_parser().parse_args(arguments)
    try:
        from minibroker_pipeline.cli.run import run  # noqa: PLC0415 - `--help` needs no job

        return run(options)
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except ModuleNotFoundError as error:
        return _fail(missing(error.name, "spark"))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        message = _describe_error(error)
        if message is None:
            raise
        return _fail(message)


def _run_benchmark(arguments: Sequence[str]) -> int:
    """Run the benchmark in the checkout that contains this package. Fail if the package is not in a checkout."""
    _fail("bench has moved: run `python -m benchmarks.spark` in a checkout of minibroker")
    if not os.path.isfile(f"{_CHECKOUT}/benchmarks/spark.py"):
        return FAILED
    return subprocess.run([sys.executable, "-m", "benchmarks.spark", *arguments], cwd=_CHECKOUT, check=False).returncode  # noqa: S603 - our own command


def _describe_error(error: Exception) -> str | None:
    """Return the message of an error meant for users, or None for other errors.

    An error raised in a Spark task arrives as text, at the end of a traceback.
    """
    module = type(error).__module__
    if module.startswith(("pyspark.errors", "py4j.")):
        if missing := _MISSING.search(str(error)):
            return f"Spark's workers have no {missing[1]}: install it there, or send it along (docs/spark.md, clusters)"
        texts = _OWN_ERROR.findall(str(error))
        return texts[-1] if texts else next(iter(_CALL.sub("", str(error)).strip().splitlines()), type(error).__name__)
    return str(error) if isinstance(error, ValueError) or module.startswith("minibroker_") else None


def _fail(message: str) -> int:
    sys.stderr.write(f"minibroker-pipeline: {message}\n")
    return FAILED


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minibroker-pipeline",
        description="Jobs over log directories of minibroker and of Apache Kafka. No broker is needed; one may run.",
    )
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for add in (_add_stats, _add_verify, _add_diff, _add_export, _add_import, _add_compact, _add_convert):
        add(jobs)
    jobs.add_parser("bench", help="moved: run `python -m benchmarks.spark` in a checkout of minibroker")
    return parser


def _add_stats(jobs: Any) -> None:
    option = _add_job(jobs, "stats", "measure the size of message formats and codecs on disk").add_argument
    _add_paths(option)
    _add_local(option)
    option("--by", choices=("partition", "topic"), default="partition", help="group by this (default: partition)")
    option("--html", metavar="FILE", help="write a page with plots")


def _add_verify(jobs: Any) -> None:
    option = _add_job(jobs, "verify", "look for damage; the exit status is 1 if there is any").add_argument
    _add_paths(option)
    _add_local(option)
    option("--compacted", **_REPEATED, metavar="PATTERN", help="topics that may have gaps, such as 'users-*'")
    option(
        "--index-interval-bytes", type=_parse_positive, metavar="N", help="the topics' index.interval.bytes, if known"
    )


def _add_diff(jobs: Any) -> None:
    option = _add_job(jobs, "diff", "compare two directories; the exit status is 1 if they differ").add_argument
    option("left", metavar="LEFT", help="a data directory, a partition directory, or an address")
    option("right", metavar="RIGHT", help="another one to compare it with")
    _add_local(option)
    _add_reading(option, isolation="read_uncommitted")
    option("--by-content", action="store_true", help="ignore offsets and partitions: compare the records of each topic")
    option("--columns", type=_split, metavar="NAMES", help="columns to compare (default: key,value,headers,timestamp)")


def _add_export(jobs: Any) -> None:
    option = _add_job(jobs, "export", "write Parquet, in folders by topic and day").add_argument
    _add_paths(option)
    _add_reading(option, isolation="read_committed")
    option("--to", required=True, metavar="DIR", dest="target", help="directory to write the folders to")
    option("--json-schema", metavar="DDL", help='values are JSON with these columns, such as "id BIGINT, name STRING"')
    option("--keep-corrupt", action="store_true", help="keep values that are not such JSON in the column corrupt")
    option("--save", choices=("error", "append", "overwrite", "ignore"), default="error", help="for an existing target")


def _add_import(jobs: Any) -> None:
    job = _add_job(jobs, "import", "write Parquet, JSON, CSV or other files as topics", chooses_topics=False)
    option = job.add_argument
    option("paths", nargs="+", metavar="FILE", help="files or folders, as for Spark's reader")
    option("--to", required=True, metavar="DIR", dest="target", help="the data directory")
    option("--topic", default="", metavar="NAME", help="topic of all rows (default: the column topic)")
    option("--save", choices=("error", "append", "overwrite"), default="error", help="for an existing directory")
    option = job.add_argument_group("reading").add_argument
    option("--format", default="parquet", metavar="NAME", help="format of the files (default: parquet)")
    option("--schema", default="", metavar="DDL", help='schema of the files, such as "id BIGINT, name STRING"')
    option("--option", **_REPEATED, metavar="NAME=VALUE", help="an option of the format (repeatable)")
    making = job.add_argument_group("making records, with expressions in Spark SQL")
    option = making.add_argument
    option("--column", **_REPEATED, dest="columns", metavar="EXPR", help="include this in the value (repeatable)")
    option("--key", default="", metavar="EXPR", help="key (default: the column key)")
    option("--value", default="", metavar="EXPR", help="value (default: the column value)")
    option("--timestamp", default="", metavar="EXPR", help="timestamp (default: the column timestamp, or now)")
    option("--partition", default="", metavar="EXPR", help="partition (default: the column partition, or by key)")
    option("--headers", default="", metavar="EXPR", help="headers (default: the column headers)")
    values = making.add_mutually_exclusive_group()
    values.add_argument("--json", action="store_true", help="write the columns as a JSON value")
    values.add_argument("--avro-schema", metavar="FILE", help="write the columns as an Avro value with this schema")
    option("--order-by", **_REPEATED, metavar="EXPR", help="sort records by this (repeatable)")
    option("--keep-offsets", action="store_true", help="use the offsets in the column offset")
    option = job.add_argument_group("writing").add_argument
    option("--partitions", type=_parse_positive, metavar="N", help="partitions of new topics (default: 1)")
    option("--codec", metavar="NAME", help="compression.type: none, gzip, snappy, lz4 or zstd")
    option("--level", type=int, metavar="N", help="level of the codec (default: its own)")
    option("--batch-bytes", type=_parse_positive, metavar="N", help="size of a batch, uncompressed (default: 65536)")
    option("--segment-bytes", type=_parse_positive, metavar="N", help="segment.bytes (default: 1 GiB)")
    option("--timestamp-type", metavar="NAME", help="CreateTime (default) or LogAppendTime")


def _add_compact(jobs: Any) -> None:
    option = _add_job(jobs, "compact", "write compacted logs into a new directory").add_argument
    _add_paths(option)
    _add_local(option)
    count = partial(option, metavar="N")
    option("--to", required=True, metavar="DIR", help="the new data directory, which must be missing or empty")
    option("--from-start", action="store_true", help="also compact what was compacted before")
    option("--roll", action="store_true", help="roll the active segment first, so that it is compacted too")
    now = "time for delete horizons (default: the current time)"
    option("--now", dest="now_ms", type=_parse_not_negative, metavar="MS", help=now)
    count("--delete-retention-ms", type=_parse_not_negative, help="how long tombstones remain (default: a day)")
    count("--min-compaction-lag-ms", type=_parse_not_negative, help="do not compact younger records (default: 0)")
    count("--segment-bytes", type=_parse_positive, help="join segments up to this size (default: 1 GiB)")
    count("--index-interval-bytes", type=_parse_not_negative, help="index.interval.bytes (default: 4096)")
    option("--memory", type=_parse_positive, metavar="MIB", help="memory for the keys of one partition (default: 256)")


def _add_convert(jobs: Any) -> None:
    option = _add_job(jobs, "convert", "write logs in another message format, codec or batch size").add_argument
    _add_paths(option)
    _add_local(option)
    count = partial(option, metavar="N")
    option("--to", required=True, metavar="DIR", dest="target", help="the new data directory")
    option("--format", choices=("v0", "v1", "v2"), help="message format (default: unchanged)")
    option("--codec", choices=("none", "gzip", "snappy", "lz4", "zstd"), help="compression.type (default: unchanged)")
    count("--level", type=int, help="level of the codec (default: its own)")
    count("--batch-bytes", type=_parse_positive, help="join or split batches to this size, uncompressed")
    count("--segment-bytes", type=_parse_positive, default=1 << 30, help="segment.bytes (default: 1 GiB)")
    count("--index-interval-bytes", type=_parse_positive, default=4096, help="index.interval.bytes (default: 4096)")
    droppable = ("headers", "timestamps", "transactions")
    option("--drop", **_REPEATED, choices=droppable, help="omit this if the format cannot store it (repeatable)")
    _add_mode(option, "entries")


def _add_job(jobs: Any, name: str, summary: str, *, chooses_topics: bool = True) -> argparse.ArgumentParser:
    """Add a job with the options that all jobs have. Jobs that choose topics also get `--topic`."""
    job: argparse.ArgumentParser = jobs.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    option = job.add_argument
    if chooses_topics:
        option("--topic", **_REPEATED, dest="topics", metavar="NAME", help="only this topic (repeatable)")
    option("--master", metavar="URL", help='run the tasks in Spark, such as "local[4]" or "spark://host:7077"')
    return job


def _add_paths(option: Any) -> None:
    """Add the argument for any number of directories."""
    option("paths", nargs="+", metavar="DIR", help="a data directory, a partition directory, or an address (s3://...)")


def _add_local(option: Any) -> None:
    """Add the options of jobs that can run without Spark."""
    processes = "number of processes, without --master (default: by the amount of work)"
    option("--processes", type=_parse_positive, metavar="N", help=processes)
    option("--json", metavar="FILE", help="write the report as JSON; - prints it instead of the table")


def _add_reading(option: Any, isolation: str) -> None:
    """Add the options of jobs that read records like the data source."""
    levels = ("read_committed", "read_uncommitted")
    option("--isolation", choices=levels, default=isolation, help=f"isolation level (default: {isolation})")
    _add_mode(option, "batches")


def _add_mode(option: Any, what: str) -> None:
    modes = ("failfast", "permissive")
    option("--mode", choices=modes, default="failfast", help=f"permissive omits damaged {what}")


def _parse_positive(text: str) -> int:
    """Parse the value of an option as an integer above 0."""
    return _parse_at_least(1, text)


def _parse_not_negative(text: str) -> int:
    return _parse_at_least(0, text)


def _parse_at_least(minimum: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if number < minimum:
        raise argparse.ArgumentTypeError(f"{number} is less than {minimum}")
    return number


def _split(text: str) -> list[str]:
    return text.split(",") if text else []
