"""The records that are read."""

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from minibroker_pipeline.connector.topics import to_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE: Final = 32
_WORDS: Final = "The quick brown fox jumps over the lazy dog, and then it sleeps. "


class Filling(NamedTuple):
    """The number of records, the bytes of each value, the producer's `compression.type` and `batch.size`."""

    records: int
    size: int
    codec: str
    batch_bytes: int


def fill(spark: "SparkSession", bootstrap: str, topic: str, filling: Filling) -> None:
    """Write the records, with keys of eight bytes; half of each value is hexadecimal noise, half is words.

    What goes wrong is Spark's.
    """
    number = f.col("id")
    noise = [
        f.md5(f.concat(number.cast("string"), f.lit(f"-{piece}"))) for piece in range(-(-filling.size // (2 * _PIECE)))
    ]
    words = [f.lit((_WORDS * 2)[piece % len(_WORDS) :][:_PIECE]) for piece in range(len(noise))]
    value = f.substring(f.concat(*(part for pair in zip(noise, words, strict=True) for part in pair)), 1, filling.size)
    frame = spark.range(filling.records).select(
        f.lpad((number % 100_000_000).cast("string"), 8, "0").alias("key"), value.alias("value")
    )
    options = {
        "kafka.compression.type": filling.codec,
        "kafka.batch.size": str(filling.batch_bytes),
        "kafka.linger.ms": "50",
    }
    to_topic(frame, bootstrap, topic, options)
