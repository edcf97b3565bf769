"""A sample of the shortages of descriptors: `make torture` takes more."""

from pathlib import Path

import pytest

from tests.sweeps import one_in
from tests.torture.shortages import Shortages

SHORTAGES = 40


@pytest.mark.parametrize("seed", one_in(2, [5, 11]))
def test_what_is_refused_for_want_of_descriptors_is_not_there(tmp_path: Path, seed: int) -> None:
    counts = Shortages(tmp_path, seed).run(SHORTAGES)
    for sign in (
        "batches refused",
        "calls refused",
        "clean stops",
        "kills",
        "starts refused",
        "offsets compacted away",
    ):
        assert counts[sign] > 0, f"{sign}: {counts}"
