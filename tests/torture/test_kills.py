"""A sample of `make torture`: the same rounds with a fixed seed."""

from pathlib import Path

from tests.torture.campaign import Campaign

KILLS = 20
SEED = 4


def test_what_was_acknowledged_survives_twenty_kills_once_and_in_its_place(tmp_path: Path) -> None:
    counts = Campaign(tmp_path, SEED).run(KILLS)
    assert counts["kills"] == KILLS
    # A torture that breaks nothing open shows nothing.
    for sign in (
        "acked records",
        "answered as duplicates or late",
        "ends torn",
        "offsets compacted away",
        "unacked batches found",
        "verifications of a log whose start had moved",
    ):
        assert counts[sign] > 0, f"{sign}: {counts}"
