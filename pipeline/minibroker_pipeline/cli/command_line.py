"""The command line: `minibroker-pipeline JOB ...`."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from minibroker_pipeline.cli import bench, compact, convert, diff, export, import_, stats, verify
from minibroker_pipeline.cli.shared import FAILED
from minibroker_storage.installation_hints import missing

_JOBS: Final = (stats, verify, diff, export, import_, compact, convert, bench)
_OURS: Final = re.compile(r"^minibroker_[\w.]+: (.+)$", re.MULTILINE)
_CALL: Final = re.compile(r"^An error occurred while calling \S+\n: (?:[\w.$]+: )?")
"""Py4J's words before an error of the JVM that PySpark has no class for."""
_MISSING: Final = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'$", re.MULTILINE)


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
        return _fail(missing(error.name, "spark"))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        return _fail(message)


def _message(error: Exception) -> str | None:
    """The message of an error that is meant for users; None for others.

    What is raised in Spark's tasks arrives as text, at the end of a traceback.
    """
    module = type(error).__module__
    if module.startswith(("pyspark.errors", "py4j.")):
        if missing := _MISSING.search(str(error)):
            return f"Spark's workers have no {missing[1]}: install it there, or send it along (docs/spark.md, clusters)"
        ours = _OURS.findall(str(error))
        return ours[-1] if ours else next(iter(_CALL.sub("", str(error)).strip().splitlines()), type(error).__name__)
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
    for job in _JOBS:
        job.add(jobs)
    return parser
