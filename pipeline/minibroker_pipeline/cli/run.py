"""Runs the jobs of `minibroker-pipeline`: creates their settings and the Spark session, and prints their reports."""

import argparse
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from minibroker_pipeline.jobs.compact import CompactSettings, compact
from minibroker_pipeline.jobs.convert import ConvertSettings, convert
from minibroker_pipeline.jobs.diff import DiffSettings, diff
from minibroker_pipeline.jobs.stats import stats, stats_html, stats_text
from minibroker_pipeline.jobs.verify import VerifySettings, verify
from minibroker_protocol.lazy_imports import lazy

with lazy:  # They need PySpark.
    from minibroker_pipeline import payloads, session
    from minibroker_pipeline.jobs import export, import_

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = TypeVar("S")

_FAULTS_FOUND: Final = 1
"""The exit status of `verify` if it found damage, and of `diff` if it found differences."""
_MEBIBYTE: Final = 1024 * 1024


def run(options: argparse.Namespace) -> int:
    """Run the job named by the options, and return the exit status."""
    return _JOBS[options.job](options)


def _run_stats(options: argparse.Namespace) -> int:
    report = stats(options.paths, topics=options.topics, spark=_session_for(options), processes=options.processes)
    _write_report(options, report.as_json(options.by), stats_text(report, options.by))
    if options.html:
        _write_text(options.html, stats_html(report))
    return 0


def _run_verify(options: argparse.Namespace) -> int:
    settings = _build_settings(VerifySettings, options)
    report = verify(options.paths, settings, spark=_session_for(options), processes=options.processes)
    _write_report(options, report.as_json(), report.as_text())
    return 0 if report.is_sound else _FAULTS_FOUND


def _run_diff(options: argparse.Namespace) -> int:
    settings = _build_settings(DiffSettings, options)
    report = diff(options.left, options.right, settings, spark=_session_for(options), processes=options.processes)
    _write_report(options, report.as_json(), report.as_text())
    return 0 if report.is_equal else _FAULTS_FOUND


def _run_export(options: argparse.Namespace) -> int:
    schema = options.json_schema
    if options.keep_corrupt and not schema:
        raise ValueError("--keep-corrupt is of use with --json-schema only")
    payload = payloads.Payload()
    if schema:
        payload = payloads.Payload("json", schema, "permissive" if options.keep_corrupt else "failfast")
    settings = _build_settings(export.ExportSettings, options, payload=payload)
    export.export(_create_session(options), options.paths, options.target, settings)
    return 0


def _run_import(options: argparse.Namespace) -> int:
    writing = {
        "partitions": options.partitions,
        "codec": options.codec,
        "compressionLevel": options.level,
        "batchBytes": options.batch_bytes,
        "segmentBytes": options.segment_bytes,
        "timestampType": options.timestamp_type,
    }
    settings = _build_settings(
        import_.ImportSettings,
        options,
        read_options=dict(_parse_option(text) for text in options.option),
        payload=_select_payload_format(options),
        options={name: value for name, value in writing.items() if value is not None},
    )
    spark = _create_session(options, ("avro",) if options.avro_schema else ())
    import_.import_files(spark, options.paths, options.target, settings)
    return 0


def _parse_option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option {text!r} is not NAME=VALUE")
    return name, value


def _select_payload_format(options: argparse.Namespace) -> Any:
    if options.avro_schema:
        with open(options.avro_schema, encoding="utf-8") as file:
            return payloads.Payload("avro", file.read())
    # Writing needs no schema, because the columns already have types.
    return payloads.Payload("json", "-") if options.json else payloads.Payload()


def _run_compact(options: argparse.Namespace) -> int:
    memory = {} if options.memory is None else {"memory_bytes": options.memory * _MEBIBYTE}
    settings = _build_settings(CompactSettings, options, **memory)
    report = compact(options.paths, options.to, settings, spark=_session_for(options), processes=options.processes)
    _write_report(options, report.as_json(), report.as_text())
    return 0


def _run_convert(options: argparse.Namespace) -> int:
    settings = _build_settings(ConvertSettings, options)
    spark = _session_for(options)
    report = convert(options.paths, options.target, settings, spark=spark, processes=options.processes)
    _write_report(options, report.as_json(), report.as_text())
    return 0


def _build_settings(kind: Callable[..., S], options: argparse.Namespace, /, **extra: Any) -> S:
    """Build the settings of a job from `extra`, and from the options that have the names of its settings."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(options).items()}
    names = inspect.signature(kind).parameters.keys() - extra.keys()
    return kind(**{name: values[name] for name in names if values.get(name) not in {None, ()}}, **extra)


def _session_for(options: argparse.Namespace) -> "SparkSession | None":
    """Return the Spark session for a job that can do without, or None without `--master` or `spark-submit`."""
    # `session` makes the same check, but importing it would load PySpark.
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    return _create_session(options) if is_submitted or options.master else None


def _create_session(options: argparse.Namespace, packages: Sequence[str] = ()) -> "SparkSession":
    return session.spark_session(f"minibroker-pipeline {options.job}", master=options.master, packages=packages)


def _write_report(options: argparse.Namespace, report: dict[str, Any], text: str) -> None:
    """Print a report, and write it to the file named by `--json`."""
    if options.json == "-":
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
        return
    sys.stdout.write(text)
    if options.json:
        _write_text(options.json, json.dumps(report, indent=2) + "\n")


def _write_text(path: str, text: str) -> None:
    """Write text to a file chosen by the user.

    Raises:
        OSError: the file cannot be written.
    """
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


_JOBS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "stats": _run_stats,
    "verify": _run_verify,
    "diff": _run_diff,
    "export": _run_export,
    "import": _run_import,
    "compact": _run_compact,
    "convert": _run_convert,
}
