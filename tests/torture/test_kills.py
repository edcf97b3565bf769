"""A sample of `make torture`: the same rounds with a fixed seed."""

from pathlib import Path

from tests.torture.campaign import Campaign

KILLS = 5
SEED = 4
SIGNS = ("acked records", "answered as duplicates or late", "ends torn", "unacked batches found")
"""Each depends on the moments of kills: there are more kills if one of them has not been seen."""


def test_what_was_acknowledged_survives_kills_once_and_in_its_place(tmp_path: Path) -> None:
    counts = Campaign(tmp_path, SEED).run(KILLS, signs=SIGNS)
    assert counts["kills"] >= KILLS
    # A torture that breaks nothing open shows nothing.
    for sign in (*SIGNS, "offsets compacted away", "verifications of a log whose start had moved"):
        assert counts[sign] > 0, f"{sign}: {counts}"
