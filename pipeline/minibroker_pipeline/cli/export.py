"""`minibroker-pipeline export`: write Parquet."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import add_job, add_paths, add_reading, session_for


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "export", run, "write Parquet, in folders of topics and days")
    add_paths(job)
    add_reading(job, isolation="read_committed")
    option = job.add_argument
    option("--to", required=True, metavar="DIR", dest="target", help="directory to write the folders to")
    option("--json-schema", metavar="DDL", help='values are JSON with these columns, such as "id BIGINT, name STRING"')
    option("--keep-corrupt", action="store_true", help="values that are no such JSON go to the column corrupt")
    option("--save", choices=("error", "append", "overwrite", "ignore"), default="error", help="if the target exists")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.export import ExportSettings, export  # noqa: PLC0415 - `--help` needs none of it
    from minibroker_pipeline.payloads import Payload  # noqa: PLC0415 - as above

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
    spark = session_for(options, is_needed=True)
    assert spark is not None
    export(spark, options.paths, options.target, settings)
    return 0
