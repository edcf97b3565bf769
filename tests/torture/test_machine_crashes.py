"""A sample of the crashes of the machine: `make torture` takes more."""

from pathlib import Path

from tests.torture.machine_crashes import MachineCrashes

CRASHES = 25
SEED = 2


def test_metadata_that_was_acknowledged_outlives_crashes_of_the_machine(tmp_path: Path) -> None:
    counts = MachineCrashes(tmp_path, SEED).run(CRASHES)
    assert counts["crashes"] == CRASHES
    for sign in ("answers held", "empty", "cut", "zeros", "bytes of the last fsync", "names undone", "whole"):
        assert counts[sign] > 0, f"{sign}: {counts}"
