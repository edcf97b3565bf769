"""Log directories in S3: the requests to the store, the results, and the errors."""

import json
import logging
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyspark.sql import SparkSession

from minibroker_pipeline.cli import main
from minibroker_pipeline.filesystem import FileSystemError, filesystem_of
from minibroker_pipeline.source.reading import DataLossError
from tests.pipeline.filesystems.object_store import ObjectStore
from tests.pipeline.source.directories import ROOMY, add, close, new_reader, offsets, orders, read
from tests.storage.helpers import NOW, a_batch, marker, sequenced

KEYS = {"key": "someone", "secret": "something"}


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with ObjectStore() as running:
        yield running


@pytest.fixture
def access(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The storage options, which are the only source of the store's address and credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    return {"endpoint_url": store.endpoint, **KEYS}


@pytest.fixture
def in_environment(store: ObjectStore, access: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables for jobs, which have no options for the store."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)


def upload(data_dir: Path, access: dict[str, Any]) -> str:
    """Upload a directory to the store and return its address."""
    system = fsspec.filesystem("s3", **access)
    address = f"{data_dir.parent.name.replace('_', '-')}/kafka"
    system.mkdirs(address, exist_ok=True)
    system.put(f"{data_dir}/", f"{address}/", recursive=True)
    return f"s3://{address}"


@pytest.fixture
def bucket(tmp_path: Path, access: dict[str, Any]) -> str:
    """A copy of `tmp_path/data`, which has all kinds of files."""
    home = orders(tmp_path / "data")
    home.append(sequenced(0, 2, is_transactional=True), marker(commit=False), a_batch(3))
    close(home)
    return upload(tmp_path / "data", access)


def test_an_address_is_read_like_a_directory(tmp_path: Path, bucket: str, access: dict[str, Any]) -> None:
    for options in (
        {},
        {"isolation": "read_committed", "splitBytes": 500},
        {"startingTimestamp": NOW + 100},
        {"startingOffsets": '{"orders": {"0": 77}}'},
    ):
        result = read(bucket, storageOptions=json.dumps(access), **options)
        assert result == read(tmp_path / "data", **options)
    assert offsets(f"{bucket}/orders-0", storageOptions=json.dumps(access)) == offsets(tmp_path / "data")


def test_a_small_segment_is_one_request_and_a_directory_is_one(
    store: ObjectStore, bucket: str, access: dict[str, Any]
) -> None:
    store.requests.clear()
    assert read(bucket, isolation="read_committed", storageOptions=json.dumps(access))
    counts = Counter(
        request.path.rpartition("/")[2] if request.range or "." in request.path else "listings"
        for request in store.requests
    )
    logs = {name: count for name, count in counts.items() if name.endswith(".log")}
    assert len(logs) > 2
    last = logs.pop(max(logs))
    assert set(logs.values()) == {1}
    assert last <= 3  # Planning searches the end of the log, beginning at an index entry.
    assert counts["listings"] == 2
    assert {count for name, count in counts.items() if not name.endswith(".log")} <= {1, 2}


def test_a_large_segment_is_read_in_ranges_that_do_not_overlap(
    tmp_path: Path, store: ObjectStore, access: dict[str, Any]
) -> None:
    home = orders(tmp_path / "data", 0, config=ROOMY)
    for _ in range(60):
        home.append(a_batch(10, value=b"v" * 1000))
    close(home)
    bucket = upload(tmp_path / "data", access)
    size = next(home.path.glob("*.log")).stat().st_size
    store.requests.clear()
    assert len(read(bucket, splitBytes=200_000, storageOptions=json.dumps(access))) == 600
    ranges = [
        request.range.removeprefix("bytes=").split("-") for request in store.requests if request.path.endswith(".log")
    ]
    spans = sorted((int(first), int(last) + 1) for first, last in ranges)
    large = [span for span in spans if span[1] - span[0] > 64 * 1024]
    assert len(large) == 4
    assert all(behind <= begin for (_, behind), (begin, _) in pairwise(large))
    assert sum(end - begin for begin, end in large) == size
    assert len(spans) < 12  # The small reads check the index and find the end of the log.


@pytest.mark.torture  # Other tests read the store without Spark, or use Spark on local directories.
def test_spark_reads_a_table_and_follows_a_stream_with_options_alone(
    spark: SparkSession, tmp_path: Path, access: dict[str, Any]
) -> None:
    home = orders(tmp_path / "data")
    bucket = upload(tmp_path / "data", access)
    options = {"storageOptions": json.dumps(access), "splitBytes": "2000"}
    table = spark.read.format("minibroker").options(**options).load(bucket)
    assert sorted(row.offset for row in table.select("offset").collect()) == offsets(tmp_path / "data")

    def followed() -> list[int]:
        stream = spark.readStream.format("minibroker").options(startingOffsets="earliest", **options).load(bucket)
        writer = stream.select("offset").writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "table"))
        assert query.awaitTermination(100)
        return sorted(row.offset for row in spark.read.parquet(str(tmp_path / "table")).collect())

    assert followed() == offsets(tmp_path / "data")
    add(home, 30)
    upload(tmp_path / "data", access)
    assert followed() == offsets(tmp_path / "data")


def test_jobs_take_an_address_and_the_environment(
    tmp_path: Path, in_environment: None, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "data")
    assert main(["verify", bucket]) == 0
    assert main(["diff", bucket, data]) == 0
    capsys.readouterr()
    assert main(["stats", bucket, "--json", "-"]) == 0
    far = json.loads(capsys.readouterr().out)
    assert main(["stats", data, "--json", "-"]) == 0
    assert {**far, "paths": [data]} == json.loads(capsys.readouterr().out)


def test_damage_in_a_bucket_is_found(
    tmp_path: Path, in_environment: None, access: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    home = orders(tmp_path / "data")
    close(home)
    path = min(home.path.glob("*.log"))
    path.write_bytes(path.read_bytes()[:-5])
    bucket = upload(tmp_path / "data", access)
    assert main(["verify", bucket]) == 1
    assert f"{bucket.removeprefix('s3://')}/orders-0/{path.name}" in capsys.readouterr().out


def test_what_is_not_there_is_named_by_its_address(tmp_path: Path, bucket: str, access: dict[str, Any]) -> None:
    storage = json.dumps(access)
    with pytest.raises(FileNotFoundError, match="s3://no-such-bucket/kafka: The specified bucket does not exist"):
        read("s3://no-such-bucket/kafka", storageOptions=storage)
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{bucket}/nowhere'"):
        read(f"{bucket}/nowhere", storageOptions=storage)
    name = min((tmp_path / "data" / "orders-0").glob("*.log")).name
    with pytest.raises(NotADirectoryError, match=f"{bucket}/orders-0/{name}"):
        read(f"{bucket}/orders-0/{name}", storageOptions=storage)


def test_a_store_that_refuses_or_does_not_answer_is_named(access: dict[str, Any]) -> None:
    without = {"endpoint_url": access["endpoint_url"], "anon": False}
    with pytest.raises(FileSystemError, match=r"^s3://logs/kafka: Unable to locate credentials$"):
        read("s3://logs/kafka", storageOptions=json.dumps(without))
    nobody = {**access, "endpoint_url": "http://127.0.0.1:1", "config_kwargs": {"retries": {"max_attempts": 0}}}
    with pytest.raises(FileSystemError, match=r"^s3://logs/kafka: Could not connect to the endpoint URL"):
        read("s3://logs/kafka", storageOptions=json.dumps(nobody))
    with pytest.raises(ValueError, match=r"storageOptions: .*expected JSON such as"):
        read("s3://logs/kafka", storageOptions="endpoint_url=x")


def test_a_file_that_has_become_shorter_has_no_bytes_behind_its_end(
    tmp_path: Path, bucket: str, access: dict[str, Any]
) -> None:
    filesystem, directory = filesystem_of(f"{bucket}/orders-0", access)
    path = min((tmp_path / "data" / "orders-0").glob("*.log"))
    data = path.read_bytes()
    with filesystem.open(f"{directory}/{path.name}") as file:
        assert file.read_at(len(data) - 3, 100_000) == data[-3:]
        assert file.read_at(len(data), 10) == file.read_at(len(data) + 100_000, 100_000) == b""
        assert file.read_at(10, 20) == data[10:30]
        assert file.read_at(15, 0) == b""


def test_a_segment_that_is_deleted_before_it_is_read_is_missed(bucket: str, access: dict[str, Any]) -> None:
    reader = new_reader(bucket, storageOptions=json.dumps(access))
    tasks = reader.partitions()
    fsspec.filesystem("s3", **access).rm(f"{bucket}/orders-0", recursive=True)
    with pytest.raises(DataLossError, match="was deleted before it was read"):
        list(reader.read(tasks[0]))
