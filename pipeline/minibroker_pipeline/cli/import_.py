"""`minibroker-pipeline import`: files to topic directories."""

import argparse
from typing import Any

from minibroker_pipeline.cli.shared import add_job, positive, session_for


def add(jobs: Any) -> None:
    """Declare the options."""
    job = add_job(jobs, "import", run, "write Parquet, JSON, CSV or other files as topics", chooses_topics=False)
    job.add_argument("paths", nargs="+", metavar="FILE", help="files or folders, as Spark's reader takes them")
    option = job.add_argument
    option("--to", required=True, metavar="DIR", dest="target", help="the data directory")
    option("--topic", default="", metavar="NAME", help="without it the column topic says it of each row")
    option("--save", choices=("error", "append", "overwrite"), default="error", help="if the directory exists")
    reading = job.add_argument_group("reading")
    reading.add_argument("--format", default="parquet", metavar="NAME", help="of the files (default: parquet)")
    reading.add_argument("--schema", default="", metavar="DDL", help='of the files, such as "id BIGINT, name STRING"')
    reading.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the format (repeatable)"
    )
    making = job.add_argument_group("making records, by expressions of Spark's SQL")
    making.add_argument(
        "--column", action="append", default=[], metavar="EXPR", help="include this in the value (repeatable)"
    )
    making.add_argument("--key", default="", metavar="EXPR", help="(default: the column key)")
    making.add_argument("--value", default="", metavar="EXPR", help="(default: the column value)")
    making.add_argument("--timestamp", default="", metavar="EXPR", help="(default: the column timestamp, else now)")
    making.add_argument("--partition", default="", metavar="EXPR", help="(default: the column partition, else by key)")
    making.add_argument("--headers", default="", metavar="EXPR", help="(default: the column headers)")
    values = making.add_mutually_exclusive_group()
    values.add_argument("--json", action="store_true", help="values are JSON of the columns")
    values.add_argument("--avro-schema", metavar="FILE", help="values are Avro of the columns, by this schema")
    making.add_argument(
        "--order-by", action="append", default=[], metavar="EXPR", help="sort records by this (repeatable)"
    )
    making.add_argument("--keep-offsets", action="store_true", help="the column offset says where records lie")
    writing = job.add_argument_group("writing")
    writing.add_argument("--partitions", type=positive, metavar="N", help="of new topics (default: 1)")
    writing.add_argument("--codec", metavar="NAME", help="compression.type: none, gzip, snappy, lz4 or zstd")
    writing.add_argument("--level", type=int, metavar="N", help="of the codec (default: its own)")
    writing.add_argument("--batch-bytes", type=positive, metavar="N", help="of a batch, uncompressed (default: 65536)")
    writing.add_argument("--segment-bytes", type=positive, metavar="N", help="segment.bytes (default: 1 GiB)")
    writing.add_argument("--timestamp-type", metavar="NAME", help="CreateTime (default) or LogAppendTime")


def run(options: argparse.Namespace) -> int:
    """Run the job; returns the exit status."""
    from minibroker_pipeline.jobs.import_ import ImportSettings, import_files  # noqa: PLC0415 - `--help` needs none of it

    writing = {
        "partitions": options.partitions,
        "codec": options.codec,
        "compressionLevel": options.level,
        "batchBytes": options.batch_bytes,
        "segmentBytes": options.segment_bytes,
        "timestampType": options.timestamp_type,
    }
    settings = ImportSettings(
        format=options.format,
        schema=options.schema,
        read_options=dict(_pair(text) for text in options.option),
        topic=options.topic,
        columns=tuple(options.column),
        key=options.key,
        value=options.value,
        timestamp=options.timestamp,
        partition=options.partition,
        headers=options.headers,
        payload=_payload(options),
        order_by=tuple(options.order_by),
        keep_offsets=options.keep_offsets,
        save=options.save,
        options={name: value for name, value in writing.items() if value is not None},
    )
    spark = session_for(options, is_needed=True, packages=("avro",) if options.avro_schema else ())
    assert spark is not None
    import_files(spark, options.paths, options.target, settings)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option {text!r} is not NAME=VALUE")
    return name, value


def _payload(options: argparse.Namespace) -> Any:
    from minibroker_pipeline.payloads import Payload  # noqa: PLC0415 - needs PySpark

    if options.avro_schema:
        with open(options.avro_schema, encoding="utf-8") as file:
            return Payload("avro", file.read())
    # What is written needs no schema: the columns have one.
    return Payload("json", "-") if options.json else Payload()
