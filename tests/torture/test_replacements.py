"""A sample of the kills within snapshots, restores, resets, seeds, deletions and imports: `make torture` takes more."""

from pathlib import Path

from tests.torture.replacements import Replacements

KILLS = 24
SEED = 3


def test_a_kill_leaves_the_state_before_or_the_state_after(tmp_path: Path) -> None:
    counts = Replacements(tmp_path, SEED).run(KILLS, each=3)
    assert counts["kills"] == KILLS
    for sign in ("states before", "states after", "cut snapshots refused", "snapshots restored"):
        assert counts[sign] > 0, f"{sign}: {counts}"
