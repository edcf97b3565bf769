"""`minibroker-pipeline convert`: logs in another message format, under another codec, in other batches."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import add_job, add_local, add_paths, positive, session_for, tell


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "convert", run, "write logs in another message format, under another codec, in other batches")
    add_paths(job)
    add_local(job)
    option = job.add_argument
    option("--to", required=True, metavar="DIR", dest="target", help="the new data directory")
    option("--format", choices=("v0", "v1", "v2"), help="of the messages (default: as they are)")
    option("--codec", choices=("none", "gzip", "snappy", "lz4", "zstd"), help="compression.type (default: as it is)")
    option("--level", type=int, metavar="N", help="of the codec (default: its own)")
    option("--batch-bytes", type=positive, metavar="N", help="join or split batches to this size, uncompressed")
    option("--segment-bytes", type=positive, default=1 << 30, metavar="N", help="segment.bytes (default: 1 GiB)")
    option("--index-interval-bytes", type=positive, default=4096, metavar="N", help="index.interval.bytes")
    option(
        "--drop",
        action="append",
        default=[],
        choices=("headers", "timestamps", "transactions"),
        help="leave out what the format cannot hold (repeatable)",
    )
    option(
        "--mode", choices=("failfast", "permissive"), default="failfast", help="permissive leaves out damaged entries"
    )


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.convert import ConvertSettings, convert  # noqa: PLC0415 - `--help` needs none of it

    settings = ConvertSettings(
        format=options.format,
        codec=options.codec,
        level=options.level,
        batch_bytes=options.batch_bytes,
        topics=tuple(options.topics),
        drop=tuple(options.drop),
        mode=options.mode,
        segment_bytes=options.segment_bytes,
        index_interval_bytes=options.index_interval_bytes,
    )
    spark = session_for(options)
    report = convert(options.paths, options.target, settings, spark=spark, processes=options.processes)
    tell(options, report.as_json(), report.as_text())
    return 0
