"""The large example, on a part of its data."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples import stdlib_pipeline
from tests.documented import ROOT

LIMIT = 3_000


@pytest.mark.torture
def test_lines_of_the_library_come_through_and_are_drawn(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stdlib_pipeline.main(["--limit", str(LIMIT), "--pictures", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"streamed: {LIMIT:,} lines; different files: 0\n" in out
    assert f"read from the log files: {LIMIT:,} lines\n" in out
    assert out.endswith("OK: each line came through once, unchanged\n")
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"stdlib-{name}.svg" for name in ("formats", "keywords", "words")}
    assert drawn == {path.name for path in (ROOT / "docs/images").glob("stdlib-*")}
    assert "<path" in (tmp_path / "stdlib-formats.svg").read_text()
