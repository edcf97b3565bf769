"""The file systems of paths and addresses."""

from pathlib import Path

import pytest

from minibroker_pipeline.filesystem import filesystem_of
from tests.pipeline.source.directories import read


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "{}/../data"])
def test_local_addresses_are_paths(tmp_path: Path, form: str) -> None:
    assert filesystem_of(form.format(tmp_path / "data"))[1] == str(tmp_path / "data")


def test_an_address_of_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="Protocol not known: nonsense"):
        read("nonsense://bucket/data")
