"""A sample of `make torture`: exactly-once copies with a fixed seed."""

from pathlib import Path

from tests.torture.copier_process import PROGRAMS
from tests.torture.copy_campaign import CopyCampaign

KILLS = 5
SEED = 58


def test_copies_are_exactly_once_whoever_is_killed(tmp_path: Path) -> None:
    counts = CopyCampaign(tmp_path, SEED, PROGRAMS["librdkafka"]).run(KILLS)
    assert counts["kills"] == KILLS
    # A torture that breaks nothing open shows nothing.
    for sign in ("kills of brokers", "aborted (by copiers)", "committed (by copiers)", "transactions in the output"):
        assert counts[sign] > 0, f"{sign}: {counts}"
