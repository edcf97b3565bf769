"""`python -m benchmarks.spark`: what it measures and how it sums up, and the command that was its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark import CONNECTOR, SOURCE, BenchReport, BenchSettings, Case, Sample, cpu_seconds, main
from minibroker_pipeline import cli
from tests.patience import PATIENCE_S

CASE = Case(100, "none", 1_000, 120_000)
BURN = "import time\nwhile time.process_time() < 0.3: pass"


def sample(reader: str, query: str, seconds: Sequence[float]) -> list[Sample]:
    return [
        Sample(
            case=CASE,
            round=number,
            reader=reader,
            query=query,
            seconds=taken,
            cpu_seconds=2 * taken,
            broker_cpu_seconds=None,
        )
        for number, taken in enumerate(seconds, 1)
    ]


def test_a_run_measures_both_formats_and_the_jobs_and_leaves_nothing(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert spark  # the program takes the session that there is
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["--records", "500", "--sizes", "100", "--codecs", "lz4", "--rounds", "1", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    figures = {(one["query"], one["reader"]): one for one in report["figures"]}
    assert list(figures) == [
        ("noop", "kafka"),
        ("noop", "minibroker"),
        ("aggregate", "kafka"),
        ("aggregate", "minibroker"),
        ("verify", "verify"),
        ("stats", "stats"),
    ]
    assert figures["noop", "kafka"]["speed_ratio"] is None
    assert all(one["rows_per_second"] > 0 for one in figures.values())
    assert report["samples"][0]["case"]["records"] == 500
    assert report["samples"][0]["case"]["log_bytes"] > 500 * 40
    assert list(tmp_path.iterdir()) == []


def test_ratios_are_those_within_rounds_and_of_jobs_to_the_query_without_a_sink() -> None:
    samples = sample(CONNECTOR, "noop", [1.0, 4.0, 2.0]) + sample(SOURCE, "noop", [0.5, 1.0, 0.25])
    samples += sample("stats", "stats", [0.1, 0.4, 0.2])
    report = BenchReport({"rounds": 3, "master": "local[2]"}, samples)
    figures = {one.reader: one for one in report.figures()}
    assert figures[CONNECTOR].rows_per_second == 500
    assert (figures[SOURCE].speed_ratio, figures[SOURCE].cpu_ratio) == (4, 0.25)
    assert figures["stats"].speed_ratio == pytest.approx(10)
    assert "  4.00x  0.25x" in report.as_text()


def test_cpu_time_counts_processes_below_and_what_has_ended() -> None:
    before = cpu_seconds([os.getpid()])
    subprocess.run([sys.executable, "-c", BURN], check=True, timeout=PATIENCE_S)
    after = cpu_seconds([os.getpid()])
    assert before is not None
    assert after is not None
    assert after - before > 0.25


def test_the_command_of_the_pipeline_says_where_it_is_and_runs_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli.main(["bench", "--help"]) == 0
    output = capfd.readouterr()
    assert output.out.startswith("usage: python -m benchmarks.spark")
    assert output.err == (
        "minibroker-pipeline: bench has moved: run `python -m benchmarks.spark` in a checkout of minibroker\n"
    )
    page = (Path(__file__).parents[3] / "docs/spark-jobs.md").read_text()
    assert {option for option in re.findall(r"--[a-z-]+", output.out) if option not in page} == {"--help"}
    monkeypatch.setattr(cli, "_CHECKOUT", str(tmp_path))  # as where the package is installed
    assert cli.main(["bench"]) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"codecs": ("lz5",)}, "'lz5' is not one of none, gzip"),
        ({"records": 0}, "records: 0 is less than 1"),
        ({"sizes": ()}, "sizes: at least one"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BenchSettings(**settings)  # type: ignore[arg-type] # wrong on purpose


def test_larger_records_are_fewer() -> None:
    assert [BenchSettings(records=1_100).records_of(size) for size in (10, 100, 1000)] == [1_100, 1_100, 200]
