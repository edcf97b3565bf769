"""Send Python's standard library through a broker to Spark: streamed, read from log files, measured and counted.

1. Every line of the library is produced to a topic, half before and half after a restart of the broker. A stream writes
   the topic to Parquet, also in two runs. Each line must be there once, unchanged.
2. The broker is stopped, and its log files are read as a table, which must have the same rows.
3. The lines are produced to one topic per codec. `stats` reports the topics' sizes, also in older message formats.
4. Spark counts the keywords that lines start with, and all words.

Steps 3 and 4 draw pictures, which docs/spark-example.md shows.

    pip install '.[spark]' confluent-kafka matplotlib                  # in the checkout, with Java 17
    python examples/stdlib_pipeline.py                                 # a minute or two
    python examples/stdlib_pipeline.py --limit 20000 --pictures /tmp   # half of that, mostly for starting Spark

The exit status is 1 if a line is missing, repeated or changed.
"""

import argparse
import keyword
import os
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyspark.sql import functions as f

from minibroker import Broker
from minibroker_pipeline.connector import TopicSource, stream_to_parquet, stream_topics
from minibroker_pipeline.jobs.stats import Line, stats, stats_text
from minibroker_pipeline.progress import show_progress
from minibroker_pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STREAMED = "lines-zstd"
FORMATS = ("v0", "v1", "v2")
COLOURS = ("#b5b5b5", "#8c8c8c", "#5a9e6f")
INK = "#3b6ea8"
SHOWN = 20
"""The number of bars in a picture."""
BATCH = 10_000
"""The number of lines between checks of the broker's acknowledgements."""


class SourceLine(NamedTuple):
    """A line of the library and its file."""

    file: str
    text: bytes


class LineSum(NamedTuple):
    """The number and checksum sum of a file's lines. Equal sums show that every line has arrived."""

    lines: int
    checksum: int


def library_lines(limit: int | None) -> Iterator[SourceLine]:
    """Yield the lines of the library's .py files without line endings, at most `limit` of them."""
    root = sysconfig.get_path("stdlib")
    remaining = sys.maxsize if limit is None else limit
    for directory, subdirectories, files in os.walk(root):
        subdirectories[:] = sorted(set(subdirectories) - {"site-packages", "dist-packages", "__pycache__"})
        for file in sorted(name for name in files if name.endswith(".py")):
            path = os.path.join(directory, file)
            with open(path, "rb") as source:
                for line in source.read().splitlines()[:remaining]:
                    remaining -= 1
                    yield SourceLine(os.path.relpath(path, root), line)


def produce(bootstrap: str, topic: str, codec: str, lines: Sequence[SourceLine]) -> None:
    """Write lines to a topic, keyed by file.

    Raises:
        RuntimeError: The broker rejected a line or did not acknowledge it.
    """
    refused: list[object] = []
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50}
    producer = Producer({**settings, "on_delivery": lambda error, _: refused.append(error) if error else None})
    for number, line in enumerate(lines):
        producer.produce(topic, line.text, line.file)
        if number % BATCH == BATCH - 1:
            producer.flush()
    if producer.flush(60) or refused:
        raise RuntimeError(
            f"{topic}: {len(producer)} lines were not acknowledged, {len(refused)} refused: {refused[:1]}"
        )
    print(f"{topic}: {len(lines):,} lines produced")


def stream(spark: "SparkSession", bootstrap: str, target: str) -> None:
    """Write the records since the last run to Parquet."""
    source = TopicSource(bootstrap=bootstrap, topics=STREAMED)
    with show_progress(spark):
        query = stream_to_parquet(stream_topics(spark, source), target, f"{target}.checkpoint", name=STREAMED)
        query.awaitTermination()


def sums_of(lines: Sequence[SourceLine]) -> dict[str, LineSum]:
    """Return the sum of each file's source lines."""
    sums: dict[str, LineSum] = {}
    for file, text in lines:
        previous_sum = sums.get(file, LineSum(0, 0))
        sums[file] = LineSum(previous_sum.lines + 1, previous_sum.checksum + zlib.crc32(text))
    return sums


def sums_in(rows: "DataFrame") -> dict[str, LineSum]:
    """Return the sum of each file's records in a table."""
    sums = rows.groupBy(f.col("key").cast("string").alias("file")).agg(
        f.count("*").alias("lines"), f.sum(f.crc32("value")).alias("checksum")
    )
    return {row.file: LineSum(row.lines, row.checksum) for row in sums.collect()}


def first_words(rows: "DataFrame") -> list[tuple[str, int]]:
    """Return the number of lines that start with each keyword, most frequent first. Lines of docstrings count too."""
    word = f.regexp_extract(f.col("value").cast("string"), r"^\s*([a-z]+)\b", 1)
    counted = rows.groupBy(word.alias("word")).count().where(f.col("word").isin([*keyword.kwlist, *keyword.softkwlist]))
    return [(row["word"], row["count"]) for row in counted.orderBy(f.desc("count"), "word").limit(SHOWN).collect()]


def words(rows: "DataFrame") -> "DataFrame":
    """Return each word that can be a name in Python as `word`, with its `count`.

    Words after a backslash are left out.
    """
    matches = f.regexp_extract_all(f.col("value").cast("string"), f.lit(r"(?<![\w\\])[A-Za-z_]\w*"), f.lit(0))
    return rows.select(f.explode(matches).alias("word")).groupBy("word").count()


def draw_formats(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw the sizes of the topics in each message format."""
    by_codec = {(line.topic or "").removeprefix("lines-"): line for line in lines}
    for format_index, (name, colour) in enumerate(zip(FORMATS, COLOURS, strict=True)):
        sizes = [by_codec[codec].sizes[format_index] for codec in CODECS]
        heights = [size.bytes / 1e6 if size else 0 for size in sizes]
        positions = [group + (format_index - 1) * 0.27 for group in range(len(CODECS))]
        bars = axes.bar(positions, heights, 0.25, color=colour, label=name)
        axes.bar_label(bars, [f"{height:.3g}" if size else "-" for height, size in zip(heights, sizes, strict=True)])
    payload = (by_codec["none"].counts.key_bytes + by_codec["none"].counts.value_bytes) / 1e6
    axes.axhline(payload, color=INK, linestyle="--", label="keys and values alone")
    axes.set_xticks(range(len(CODECS)), CODECS)
    axes.set_ylabel("MB")
    axes.set_title(f"{by_codec['none'].counts.records:,} lines of Python in each codec and message format")
    axes.legend(frameon=False)


def draw_first_words(axes: Axes, counts: Sequence[tuple[str, int]]) -> None:
    """Draw bars, with the most frequent keyword at the top."""
    names = [name for name, _ in counts]
    bars = axes.barh(names, [count for _, count in counts], color=INK)
    axes.bar_label(bars, [f"{count:,}" for _, count in counts], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title("Keywords that lines begin with")


def draw_words(axes: Axes, counts: Sequence[tuple[str, int]]) -> None:
    """Draw frequencies by rank. The result is a straight line if Zipf's law holds."""
    ranks = sorted({min(int(1.02**step), len(counts)) for step in range(1_000)})  # More points would not be visible.
    axes.loglog(ranks, [counts[rank - 1][1] for rank in ranks], color=INK, linewidth=2)
    for rank in (1, 2, 4, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000):
        if rank <= len(counts):
            word, count = counts[rank - 1]
            axes.annotate(word, (rank, count), (4, 4), textcoords="offset points")
            axes.plot([rank], [count], "o", color=INK, markersize=3)
    axes.set_xlabel("rank")
    axes.set_ylabel("how often")
    axes.set_title(f"{len(counts):,} different words")


def save(folder: str, name: str, draw: Callable[[Axes], None]) -> None:
    """Draw and save a picture. Its file changes only if the picture does."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.spines[["top", "right"]].set_visible(False)
    path = os.path.join(folder, f"stdlib-{name}.svg")
    with rc_context({"svg.hashsalt": "minibroker"}):
        figure.savefig(path, metadata={"Date": None})
    print(f"drawn: {path}")


def run(lines: Sequence[SourceLine], folder: str, pictures: str) -> int:
    """Run all steps in a scratch folder, and return the number of differences."""
    data, parquet = os.path.join(folder, "data"), os.path.join(folder, "parquet")
    topics = [f"lines-{codec}:2" for codec in CODECS]
    half = len(lines) // 2
    spark = spark_session("stdlib_pipeline")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.shuffle.partitions", 4)
    for half_of_lines in (lines[:half], lines[half:]):
        with Broker(topics=topics, data_dir=data) as broker:
            produce(broker.bootstrap_servers, STREAMED, "zstd", half_of_lines)
            stream(spark, broker.bootstrap_servers, parquet)
    with Broker(data_dir=data) as broker:
        for codec in CODECS[:-1]:
            produce(broker.bootstrap_servers, f"lines-{codec}", codec, lines)

    expected, streamed = sums_of(lines), sums_in(spark.read.parquet(parquet))
    different = [file for file in expected.keys() | streamed.keys() if expected.get(file) != streamed.get(file)]
    print(f"streamed: {sum(line.lines for line in streamed.values()):,} lines; different files: {len(different)}")
    rows = spark.read.format("minibroker").option("topics", STREAMED).load(data).cache()
    read_sums = sums_in(rows)
    different += [file for file in expected.keys() | read_sums.keys() if expected.get(file) != read_sums.get(file)]
    print(f"read from the log files: {sum(line.lines for line in read_sums.values()):,} lines")

    report = stats([data])
    print(stats_text(report, "topic"))
    save(pictures, "formats", lambda axes: draw_formats(axes, report.topics()))
    save(pictures, "keywords", lambda axes: draw_first_words(axes, first_words(rows)))

    counted = [(row["word"], row["count"]) for row in words(rows).orderBy(f.desc("count"), "word").collect()]
    print("most frequent:", ", ".join(f"{word} {count:,}" for word, count in counted[:SHOWN]))
    save(pictures, "words", lambda axes: draw_words(axes, counted))
    rows.unpersist()
    return len(different)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example. Return 0 if every line came through."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", metavar="N", type=int, help="only the first N lines")
    parser.add_argument("--pictures", metavar="DIR", default=".", help="where pictures go (default: here)")
    options = parser.parse_args(arguments)
    os.makedirs(options.pictures, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stdlib-pipeline-") as folder:
        different = run(list(library_lines(options.limit)), folder, options.pictures)
    print(
        "FAILED: lines are missing, repeated or changed" if different else "OK: each line came through once, unchanged"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
