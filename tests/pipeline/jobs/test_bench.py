"""The pipeline's command that was replaced by `python -m benchmarks.spark`."""

import re
from pathlib import Path

import pytest

from minibroker_pipeline import cli


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
    monkeypatch.setattr(cli, "_CHECKOUT", str(tmp_path))  # Simulate a package that is installed outside a checkout.
    assert cli.main(["bench"]) == 2
