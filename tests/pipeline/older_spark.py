"""Writes a topic, reads it as a table and as a stream, and prints what it got as JSON. An older Spark runs it."""

import json
import sys
from typing import Any

import pyspark
from pyspark.errors import StreamingQueryException

from minibroker_pipeline.session import run_to_end, spark_session, test_settings


def main(folder: str, *streams: str) -> None:
    """Work in a folder, with streams if the second argument says so."""
    spark, data = spark_session("older", **test_settings()), f"{folder}/data"

    def append(start: int, end: int) -> None:
        rows = spark.range(start, end).selectExpr("'orders' AS topic", "CAST(CAST(id AS STRING) AS BINARY) AS value")
        rows.coalesce(1).write.format("minibroker").mode("append").save(data)

    def stream(**options: Any) -> int:
        rows = spark.readStream.format("minibroker").options(startingOffsets="earliest", **options).load(data)
        writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        run_to_end(writer.format("parquet").option("path", f"{folder}/out"))
        return spark.read.parquet(f"{folder}/out").select("partition", "offset").distinct().count()

    append(0, 100)
    table = spark.read.format("minibroker").load(data)
    got: dict[str, Any] = {
        "version": pyspark.__version__,
        "values": sorted(int(row.value) for row in table.select("value").collect()),
        "filtered": table.where("offset >= 90 AND topic = 'orders'").count(),
    }
    if streams:
        got["streamed"] = [stream()]
        append(100, 150)
        got["streamed"].append(stream())
        try:
            stream(maxOffsetsPerTrigger=10)
        except StreamingQueryException as error:
            got["limited"] = str(error)
    print(json.dumps(got))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
