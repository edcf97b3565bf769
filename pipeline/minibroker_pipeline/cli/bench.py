"""`minibroker-pipeline bench`: measure reading, beside Spark's Kafka connector."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import positive, tell


def add(jobs: Any) -> None:
    """Declare the options."""
    summary = "measure how fast log files are read, beside Spark's Kafka connector"
    job = jobs.add_parser("bench", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    job.set_defaults(run=run)
    option = job.add_argument
    option(
        "--records",
        type=positive,
        default=2_000_000,
        metavar="N",
        help="of topics with values of 100 bytes; fewer of larger ones (default: 2000000)",
    )
    option("--sizes", default="100,1000", metavar="N,N", help="bytes of the values (default: 100,1000)")
    option("--codecs", default="none,lz4", metavar="NAME,NAME", help="compression.type (default: none,lz4)")
    option("--rounds", type=positive, default=3, metavar="N", help="after one that does not count (default: 3)")
    option("--master", default="local[2]", metavar="URL", help="where Spark runs (default: local[2])")
    option("--bootstrap", metavar="HOST:PORT", help="read with the connector from this broker, too")
    option("--bootstrap-pid", type=positive, metavar="PID", help="its process, if it is on this machine: for CPU times")
    option("--json", metavar="FILE", help="write the report as JSON; - is standard output, instead of the table")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.bench import BenchSettings, bench  # noqa: PLC0415 - `--help` needs none of it

    settings = BenchSettings(
        records=options.records,
        sizes=tuple(positive(size) for size in options.sizes.split(",")),
        codecs=tuple(options.codecs.split(",")),
        rounds=options.rounds,
        master=options.master,
        bootstrap=options.bootstrap,
        bootstrap_pid=options.bootstrap_pid,
    )
    report = bench(settings)
    tell(options, report.as_json(), report.as_text())
    return 0
