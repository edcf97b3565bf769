"""The output, the files and the exit status of the command line."""

import json
import re
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from minibroker_pipeline.cli import main
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.pipeline.jobs.directories import flip, put_indexes, put_log

RECORDS = [NewRecord(b"key", b'{"id": %d}' % number, 1_000) for number in range(5)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    partition = put_log(tmp_path / "data", "orders-0", bytes(build_batch(RECORDS)))
    put_indexes(partition, 0, times=[(1_000, 4)])
    return tmp_path / "data"


def spoil(directory: Path) -> None:
    flip(next(directory.glob("*/*.log")), 70)


def test_stats_prints_a_table_and_writes_json_and_a_page(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: str(tmp_path / name) for name in ("stats.json", "stats.html")}
    assert main(["stats", str(directory), "--json", files["stats.json"], "--html", files["stats.html"]]) == 0
    assert "orders" in capsys.readouterr().out
    assert json.loads(Path(files["stats.json"]).read_text())["total"]["records"] == 5
    assert "<svg" in Path(files["stats.html"]).read_text()


def test_json_can_be_all_that_is_printed(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(directory), "--by", "topic", "--topic", "orders", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["topic"] == "orders"


def test_the_exit_status_of_verify_tells_damage(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(directory)]) == 0
    assert capsys.readouterr().out.endswith(": no damage\n")
    spoil(directory)
    assert main(["verify", str(directory), "--compacted", "x*", "--index-interval-bytes", "100"]) == 1
    out = capsys.readouterr().out
    assert "checksum" in out
    assert out.endswith("1 cases of damage\n")
    assert main(["verify", str(directory), "--json", "-"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["file"].endswith("/orders-0/00000000000000000000.log")
    assert (finding["position"], finding["what"], finding["damage"]) == (0, "checksum", True)


def test_the_exit_status_of_diff_tells_differences(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(directory), str(directory)]) == 0
    put_log(tmp_path / "other", "orders-0", bytes(build_batch(RECORDS[:4])))
    assert main(["diff", str(directory), str(tmp_path / "other"), "--columns", "key,value"]) == 1
    assert main(["diff", str(directory), str(tmp_path / "other"), "--by-content"]) == 1
    assert "orders-0 offset 4: only on the left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "nowhere"], "nowhere: No such file or directory"),
        (["stats", "nowhere"], "nowhere: No such file or directory"),
        (["diff", "nowhere", "nowhere"], "nowhere: No such file or directory"),
        (["verify", "{}", "--topic", "payments"], "there is no topic 'payments'"),
        (["stats", "{}", "--topic", "payments"], "there is no topic 'payments'"),
        (["diff", "{}", "{}", "--columns", "color"], "there is no 'color'"),
        (["export", "{}", "--to", "out", "--keep-corrupt"], "--json-schema"),
    ],
)
def test_errors_are_one_line_and_exit_status_2(
    directory: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([argument.format(directory) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("minibroker-pipeline: ")
    assert message in error
    assert error.count("\n") == 1


def test_damage_ends_a_diff_with_the_place_and_what_to_do(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(directory)
    assert main(["diff", str(directory), str(directory)]) == 2
    assert "byte 0, offset 0" in capsys.readouterr().err
    assert main(["diff", str(directory), str(directory), "--mode", "permissive"]) == 0


def test_export_writes_parquet_in_a_session(directory: Path, tmp_path: Path, spark: SparkSession) -> None:
    target = str(tmp_path / "out")
    assert main(["export", str(directory), "--to", target, "--json-schema", "id BIGINT", "--keep-corrupt"]) == 0
    rows = spark.read.parquet(target).select("data.id").orderBy("id").collect()
    assert [row.id for row in rows] == [*range(5)]


@pytest.mark.parametrize("segments", [1, pytest.param(2, marks=pytest.mark.torture)])
def test_an_export_of_a_damaged_log_says_where_and_what_to_do(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession, segments: int
) -> None:
    """The end of a log is checked when the query is planned, and the rest in its tasks."""
    spoil(directory)
    if segments > 1:
        (directory / "orders-0" / f"{5:020d}.log").write_bytes(build_batch(RECORDS, base_offset=5))
    assert main(["export", str(directory), "--to", str(tmp_path / "out")]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("minibroker-pipeline: ")]
    assert f"{0:020d}.log: byte 0, offset 0: " in line
    assert "permissive" in line


@pytest.mark.torture
def test_jobs_run_as_tasks_of_spark(directory: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession) -> None:
    assert main(["verify", str(directory), "--master", "local[2]"]) == 0
    assert "5 records" in capsys.readouterr().out


def test_workers_without_the_package_are_told_of(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PythonException("Traceback:\n...\nModuleNotFoundError: No module named 'minibroker_pipeline'\n\n\tat x.Y")

    monkeypatch.setattr("minibroker_pipeline.cli.run.stats", fail)
    assert main(["stats", str(directory)]) == 2
    assert "Spark's workers have no minibroker_pipeline: install it there" in capsys.readouterr().err


def test_every_option_is_in_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs/spark-jobs.md").read_text()
    for job in ("stats", "verify", "diff", "export", "import", "compact", "convert"):
        with pytest.raises(SystemExit):
            main([job, "--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
        assert len(options) > 4
        assert {option for option in options if option not in page} == set()
