"""The samples that `make test` takes of sweeps, and the list of them in CONTRIBUTING.md."""

import os
import subprocess
import sys

from tests.documented import ROOT
from tests.patience import PATIENCE_S
from tests.samples import SWEEPS, swept_files


def sizes(**environment: str) -> str:
    """How many of 100 or 7 cases are taken, and whether Hypothesis makes the same ones each time."""
    program = "from tests.samples import *; e = examples(100, 7); print(part(100, 7), e.max_examples, e.derandomize)"
    inherited = {name: value for name, value in os.environ.items() if name not in {SWEEPS, "CI"}}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.strip()


def test_a_sample_is_the_same_each_time() -> None:
    assert sizes() == "7 7 True"


def test_the_whole_is_of_another_seed_each_time() -> None:
    assert sizes(**{SWEEPS: "whole"}) == "100 100 False"


def test_every_sweep_is_listed_for_those_who_contribute() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(swept_files()) > 1
    assert [file for file in swept_files() if f"`{file.removeprefix('tests/')}`" not in contributing] == []
