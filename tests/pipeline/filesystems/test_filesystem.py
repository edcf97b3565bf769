"""Remote directories through fsspec, with its memory file system in place of an object store."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from minibroker_pipeline.filesystem import filesystem_of
from tests.pipeline.source.directories import offsets, orders, plan, read
from tests.storage.helpers import NOW, a_batch, marker, sequenced


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[str]:
    """A copy of a directory with all kinds of files."""
    home = orders(tmp_path / "data")
    home.append(sequenced(0, 2, is_transactional=True), marker(commit=False), a_batch(3))
    system = fsspec.filesystem("memory")
    name = f"/bucket-{uuid.uuid4().hex}"
    system.put(f"{tmp_path}/data/", name, recursive=True)
    yield f"memory:/{name}"
    system.rm(name, recursive=True)


def test_an_address_is_read_like_a_directory(tmp_path: Path, bucket: str) -> None:
    for options in (
        {},
        {"isolation": "read_committed", "splitBytes": 500},
        {"startingTimestamp": NOW + 100},
        {"startingOffsets": '{"orders": {"0": 77}}'},
    ):
        assert read(bucket, **options) == read(tmp_path / "data", **options)
    assert offsets(f"{bucket}/orders-0") == offsets(tmp_path / "data")
    assert len(plan(bucket, splitBytes=500)) > 2


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "{}/../data"])
def test_local_addresses_are_paths(tmp_path: Path, form: str) -> None:
    assert filesystem_of(form.format(tmp_path / "data"))[1] == str(tmp_path / "data")


def test_an_address_of_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="Protocol not known: nonsense"):
        read("nonsense://bucket/data")
