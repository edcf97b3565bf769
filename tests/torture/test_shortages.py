"""A sample of the shortages of descriptors: `make torture` takes more."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.torture.in_process import Torture
from tests.torture.ledger import TortureError
from tests.torture.shortages import Shortages

SHORTAGES = 40


@pytest.mark.parametrize("seed", [5, 11])
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


def test_others_of_the_process_have_their_descriptors_and_say_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = threading.Event()

    def work() -> int:
        turns = 0
        while not done.wait(0.001):
            kept = os.open(os.devnull, os.O_RDONLY)
            sys.stderr.write("not of the broker\n")
            os.close(kept)
            turns += 1
        return turns

    with ThreadPoolExecutor(1) as others:
        working = others.submit(work)
        try:
            Shortages(tmp_path, 5).run(4)
        finally:
            done.set()
        assert working.result() > 0
    assert "not of the broker" in capsys.readouterr().err


def test_a_descriptor_that_the_broker_keeps_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    close = Torture.close

    def keep(torture: Torture) -> None:
        kept.append(os.open(torture.data_dir, os.O_RDONLY))
        close(torture)

    monkeypatch.setattr(Torture, "close", keep)
    try:
        if os.path.isdir("/proc/self/fd"):
            with pytest.raises(TortureError, match=r"left descriptors of .*/data'"):
                Shortages(tmp_path, 5).run(1)
    finally:
        for each in kept:
            os.close(each)
