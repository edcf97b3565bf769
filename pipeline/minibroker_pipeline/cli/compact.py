"""`minibroker-pipeline compact`: log compaction of directories into new ones."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import add_job, add_local, add_paths, positive, session_for, tell

_MEBIBYTE = 1024 * 1024


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "compact", run, "write compacted logs into a new directory")
    add_paths(job)
    add_local(job)
    option = job.add_argument
    option("--to", required=True, metavar="DIR", help="the new data directory; it must not exist, or be empty")
    option("--from-start", action="store_true", help="compact again what was compacted before")
    option("--roll", action="store_true", help="also the active segment, as if a new one had begun")
    option(
        "--now", type=_not_negative, metavar="MS", help="the time to judge delete horizons by (default: the clock's)"
    )
    option(
        "--delete-retention-ms", type=_not_negative, metavar="N", help="for how long tombstones stay (default: a day)"
    )
    option("--min-compaction-lag-ms", type=_not_negative, metavar="N", help="leave younger records alone (default: 0)")
    option("--segment-bytes", type=positive, metavar="N", help="join segments up to this size (default: 1 GiB)")
    option("--index-interval-bytes", type=_not_negative, metavar="N", help="as of the topics (default: 4096)")
    option("--memory", type=positive, metavar="MIB", help="for the keys of one partition (default: 256)")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.compact import CompactSettings, compact  # noqa: PLC0415 - `--help` needs none of it

    given = {
        "now_ms": options.now,
        "delete_retention_ms": options.delete_retention_ms,
        "min_compaction_lag_ms": options.min_compaction_lag_ms,
        "segment_bytes": options.segment_bytes,
        "index_interval_bytes": options.index_interval_bytes,
        "memory_bytes": None if options.memory is None else options.memory * _MEBIBYTE,
    }
    settings = CompactSettings(
        topics=tuple(options.topics),
        from_start=options.from_start,
        roll=options.roll,
        **{name: value for name, value in given.items() if value is not None},
    )
    report = compact(options.paths, options.to, settings, spark=session_for(options), processes=options.processes)
    tell(options, report.as_json(), report.as_text())
    return 0


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number
