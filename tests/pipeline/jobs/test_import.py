"""Importing files into topics."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from minibroker_pipeline import cli
from minibroker_pipeline.jobs.diff import diff
from minibroker_pipeline.jobs.export import export
from minibroker_pipeline.jobs.import_ import ImportSettings, import_files
from minibroker_pipeline.log_directories.directory_commit import DirectoryStateError
from minibroker_pipeline.payloads import Payload
from tests.pipeline.source.directories import close, orders, read

COLUMNS = ("key", "value", "timestamp", "partition", "offset", "headers")
AVRO = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """A JSON file of orders, with the oldest order last."""
    path = tmp_path / "orders.json"
    made = [
        {"id": number, "who": f"who-{number % 3}", "at": f"2024-05-06T00:00:{59 - number:02}Z"} for number in range(20)
    ]
    path.write_text("\n".join(json.dumps(line) for line in made))
    return str(path)


@pytest.mark.torture
def test_the_command_makes_json_with_keys_times_and_headers(spark: SparkSession, tmp_path: Path, lines: str) -> None:
    target = tmp_path / "data"
    arguments = ["import", lines, "--to", str(target), "--format", "json"]
    arguments += ["--schema", "id BIGINT, who STRING, at STRING", "--json", "--order-by", "at"]
    arguments += ["--topic", "orders", "--key", "id % 5", "--timestamp", "at"]
    arguments += ["--headers", "array(named_struct('key', 'who', 'value', CAST(who AS BINARY)))", "--codec", "zstd"]
    arguments += ["--column", "id", "--column", "upper(who) AS who"]
    assert cli.main(arguments) == 0
    result = read(target, COLUMNS)
    assert [json.loads(row["value"]) for row in result] == [
        {"id": number, "who": f"WHO-{number % 3}"} for number in range(19, -1, -1)
    ]
    assert [row["offset"] for row in result] == list(range(20))
    assert result[0]["key"] == b"4"
    assert result[0]["timestamp"] == datetime(2024, 5, 6, 0, 0, 40, tzinfo=UTC)
    assert result[0]["headers"] == [{"key": "who", "value": b"who-1"}]
    assert cli.main(arguments) == 2  # The directory exists.
    assert cli.main([*arguments, "--save", "append"]) == 0
    assert len(read(target, COLUMNS)) == 40


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("option", "message"),
    [(["--format", "jsn"], "data source: jsn"), (["--keep-offsets"], "column partition is missing")],
)
def test_what_cannot_be_imported_is_told_in_one_line(
    option: list[str], message: str, tmp_path: Path, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["import", lines, "--to", str(tmp_path / "data"), "--topic", "orders", "--json", "--format", "json"]
    assert cli.main([*arguments, *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_what_export_has_written_comes_back_to_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    home = orders(tmp_path / "data")
    orders(tmp_path / "data", name="orders-1")
    close(home)
    export(spark, [str(tmp_path / "data")], str(tmp_path / "parquet"))
    import_files(spark, [str(tmp_path / "parquet")], str(tmp_path / "again"), ImportSettings(keep_offsets=True))
    assert diff(str(tmp_path / "data"), str(tmp_path / "again"), processes=1).is_equal


def test_avro_is_made_of_columns(spark: SparkSession, tmp_path: Path, lines: str) -> None:
    making: dict[str, Any] = {
        "columns": ("id", "who"),
        "payload": Payload("avro", json.dumps(AVRO)),
        "order_by": ("id",),
    }
    import_files(spark, [lines], str(tmp_path / "data"), ImportSettings(format="json", topic="orders", **making))
    assert read(tmp_path / "data", ("value",))[1]["value"] == b"\x02\x0awho-1"


def test_a_single_column_is_a_value_as_it_is(spark: SparkSession, tmp_path: Path, lines: str) -> None:
    import_files(spark, [lines], str(tmp_path / "data"), ImportSettings(format="text", topic="orders"))
    assert [row["value"].decode() for row in read(tmp_path / "data", ("value",))] == Path(lines).read_text().split("\n")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "value: none of at, id, who"),
        ({"value": "who", "payload": Payload("json", "-")}, "value: an expression is a value already"),
        ({"value": "who", "timestamp": "id / 2"}, "timestamp: double is neither"),
    ],
)
def test_settings_that_make_no_records_are_told(
    spark: SparkSession, tmp_path: Path, lines: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        import_files(spark, [lines], str(tmp_path / "data"), ImportSettings(format="json", topic="a", **settings))


def test_a_directory_that_is_there_is_left_alone_unless_asked(spark: SparkSession, tmp_path: Path, lines: str) -> None:
    with pytest.raises(DirectoryStateError, match="append to it, or name a new directory"):
        import_files(spark, [lines], str(tmp_path), ImportSettings(format="text", topic="orders"))
