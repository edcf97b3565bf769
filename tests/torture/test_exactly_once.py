"""A sample of `make torture`: exactly-once copies with a fixed seed."""

from pathlib import Path

import pytest

from tests.torture.copier_process import PROGRAMS
from tests.torture.copy_campaign import CopyCampaign

KILLS = 5
SEED = 58


@pytest.mark.parametrize("client", ["librdkafka", pytest.param("java", marks=pytest.mark.torture)])
def test_copies_are_exactly_once_whoever_is_killed(tmp_path: Path, client: str) -> None:
    counts = CopyCampaign(tmp_path, SEED, PROGRAMS[client]).run(KILLS)
    assert counts["kills"] == KILLS
    # A torture that breaks nothing open shows nothing.
    for sign in ("kills of brokers", "committed (by copiers)", "transactions in the output"):
        assert counts[sign] > 0, f"{sign}: {counts}"
