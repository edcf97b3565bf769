"""A sample of `make torture`: the same rounds with a fixed seed."""

from pathlib import Path

import pytest

from tests.torture.campaign import Campaign
from tests.torture.starvation import STARVES

KILLS = 10
SEED = 4
SIGNS = ("acked records", "answered as duplicates or late", "ends torn", "unacked batches found")
"""Each depends on the moments of kills: there are more kills if one of them has not been seen."""


def test_what_was_acknowledged_survives_ten_kills_once_and_in_its_place(tmp_path: Path) -> None:
    counts = Campaign(tmp_path, SEED).run(KILLS, signs=SIGNS)
    assert counts["kills"] >= KILLS
    # A torture that breaks nothing open shows nothing.
    for sign in (*SIGNS, "offsets compacted away", "verifications of a log whose start had moved"):
        assert counts[sign] > 0, f"{sign}: {counts}"


@pytest.mark.skipif(not STARVES, reason="the limit of another process is Linux's to alter")
@pytest.mark.parametrize("starvations", [2, pytest.param(6, marks=pytest.mark.torture)])
def test_what_was_acknowledged_outlives_a_lack_of_descriptors(tmp_path: Path, starvations: int) -> None:
    signs = ("batches refused", "calls amid a lack of descriptors")
    counts = Campaign(tmp_path, seed=29).run(0, starvations=starvations, signs=signs)
    assert counts["starvations"] >= starvations
    assert all(counts[sign] for sign in signs)
