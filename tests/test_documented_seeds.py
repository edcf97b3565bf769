"""The seed files shown in docs/seed-data.md work."""

from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.operations.seeding import SeedError
from tests.documented import Block, blocks

PAGE = "docs/seed-data.md"
FILES = [block for block in blocks(PAGE) if block.language != "text"]


@pytest.mark.parametrize("block", FILES, ids=[block.language for block in FILES])
def test_a_file_that_is_shown_fills_a_broker(block: Block, tmp_path: Path) -> None:
    if block.language == "yaml":
        pytest.importorskip("yaml")
    path = tmp_path / f"seeds.{block.language}"
    path.write_text(block.text)
    with Broker(seed_data=str(path)) as broker:
        assert broker.topics()["orders"].partitions == 3
        assert broker.records("orders")[0].key in {b"a", b"b"}


def test_the_complaint_that_is_shown_is_the_one_that_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yaml")
    (expected,) = [block.text for block in blocks(PAGE) if block.language == "text"]
    monkeypatch.chdir(tmp_path)
    Path("seeds.yaml").write_text(
        "topics:\n  - audit\n  - {name: orders, partitions: 3, records: [one, two, {partition: 7}]}\n"
    )
    with pytest.raises(SeedError) as caught, Broker(seed_data="seeds.yaml"):
        pass
    assert f"minibroker: {caught.value}\n" == expected
