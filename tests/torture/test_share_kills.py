"""A sample of `make torture`: kills of the broker under a share consumer, with a fixed seed."""

from pathlib import Path

import pytest

from tests.torture.share_campaign import ShareCampaign

KILLS = 10
SEED = 932


@pytest.mark.torture
def test_what_a_share_consumer_has_acknowledged_is_done_with(tmp_path: Path) -> None:
    counts = ShareCampaign(tmp_path, SEED).run(KILLS)
    assert counts["kills"] == KILLS
    # A torture that breaks nothing open shows nothing.
    for sign in ("came again", "commits that were confirmed", "commits that were not", "done with", "in the queue"):
        assert counts[sign] > 0, f"{sign}: {counts}"
