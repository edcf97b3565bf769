"""Shortages of descriptors: a broker in this process is refused some of them while it writes, stops and starts.

All of it follows from the seed, also whether chores and requests yield at each of their steps or at none. What was
acknowledged has to stay; what was refused must not be readable, unless the broker died before it could cut it off. A
batch that is sent again is there once.
"""

import gc
import io
import math
import os
import random
import sys
import threading
from collections import Counter
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Final

from tests.torture.broker import HARMLESS
from tests.torture.few_descriptors import FewDescriptors
from tests.torture.in_process import NONE, TINY_TOPICS, Torture, are_explained, is_settled, sliced
from tests.torture.ledger import Ledger, TortureError
from tests.torture.producers import DEPTH
from tests.torture.workload import Sent

_DESCRIPTORS: Final = Path("/proc/self/fd")
Batches = list[tuple[Ledger, Sent]]


class Shortages:
    """Turns on one data directory: produce amid refusals, then see what is there, stopped or killed in between."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._directory, self._seed = directory, seed
        self._few = FewDescriptors(random.Random(f"few {seed}"), thread=threading.get_ident())
        self._refused: Batches = []

    def run(self, shortages: int) -> Counter[str]:
        """So many turns and a look at everything; returns what was done and found. `AssertionError`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        slice_s = random.Random(f"slices {self._seed}").choice((0, math.inf))
        with self._few.installed(), sliced(slice_s), redirect_stderr(_OwnLines()) as stderr:
            self._torture = Torture(self._directory, TINY_TOPICS, self._seed)
            try:
                self._torture.greet()
                for turn in range(shortages):
                    self._turn(turn)
                self._torture.verify(looks=20)
                self._torture.check_files()
                self._torture.verify(looks=20)
            except Exception as error:
                error.add_note(f"seed {self._seed}, {self.counts}, in {self._directory}")
                raise
            finally:
                self._few.end()
            self._torture.close()
        if complaints := [line for line in stderr.getvalue().splitlines() if not HARMLESS.search(line)]:
            raise TortureError("the broker complains: " + "\n".join(complaints))
        gc.collect()
        if left := _descriptors(self._directory):
            raise TortureError(f"the broker has left descriptors of {left}")
        self.counts["shortages"] = shortages
        self.counts["calls refused"] = self._few.refused
        return sum((ledger.counts for ledger in self._torture.ledgers), self.counts)

    def _turn(self, turn: int) -> None:
        torture, rng = self._torture, self._torture.rng
        for _ in range(rng.randint(1, 3)):
            self._send(rng.randint(1, 8))
        if rng.random() < 0.3:
            self._few.begin()
            torture.do_chores()
        self._few.end()
        self.counts["batches refused"] += len(self._refused)
        if rng.random() < 0.5:
            self._check_ends()
        if rng.random() < 0.3:
            self._end_and_start()
            torture.verify(looks=3)
        if rng.random() < 0.5:
            torture.do_chores()
        refused = [(ledger, sent) for ledger, sent in self._refused if not is_settled(ledger, sent)]
        codes = torture.send(*refused)
        if codes != [NONE] * len(refused):
            raise TortureError(f"turn {turn}: what was refused was answered with {codes} when it was sent again")
        self._refused = []
        self._check_ends()
        if rng.random() < 0.2:
            torture.check_files()
            torture.verify(looks=10)

    def _send(self, most: int) -> None:
        """Send what was refused, and behind it new batches; not more for a log than one producer has in flight."""
        torture, rng = self._torture, self._torture.rng
        batches = self._refused
        waiting = Counter(ledger for ledger, _ in batches)
        for ledger in (rng.choice(torture.ledgers) for _ in range(most)):
            if waiting[ledger] < DEPTH:
                waiting[ledger] += 1
                batches.append((ledger, torture.mint_for(ledger)))
        if rng.random() < 0.7:
            torture.close_files(rng.choice((0.5, 0.9)))
        self._few.begin()
        codes = torture.send(*batches)
        if not are_explained(batches, codes):
            raise TortureError(f"not explained by a lack of descriptors: {codes}")
        self._refused = [batch for batch, code in zip(batches, codes, strict=True) if code]

    def _check_ends(self) -> None:
        for ledger in self._torture.ledgers:
            end = self._torture.view(ledger).end
            if end != ledger.acked_end:
                raise TortureError(f"{ledger.name} ends at {end}, but only {ledger.acked_end} was acknowledged")

    def _end_and_start(self) -> None:
        """Kill or stop the broker and start it again, each with enough descriptors or too few."""
        torture, rng = self._torture, self._torture.rng
        clean, starved_end, starved_start = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.3
        if starved_end:
            self._few.begin()
        try:
            torture.reopen(clean=clean, meanwhile=self._few.begin if starved_start else self._few.end)
        except OSError:
            if not starved_start:
                raise
            self.counts["starts refused"] += 1
            self._few.end()
            torture.harness.start()
        self._few.end()
        self.counts["clean stops" if clean else "kills"] += 1
        if clean and not starved_end:
            self._check_ends()


class _OwnLines(io.StringIO):
    """Collects what its own thread writes to standard error; lines of others pass, as of a broker that tests share."""

    def __init__(self) -> None:
        super().__init__()
        self._thread, self._others = threading.get_ident(), sys.stderr

    def write(self, text: str) -> int:
        return super().write(text) if threading.get_ident() == self._thread else self._others.write(text)


def _descriptors(directory: Path) -> list[str]:
    """The files and directories below one that this process has open, where the system tells."""
    found: list[str] = []
    for each in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        with suppress(FileNotFoundError):  # another thread has closed it by now
            found.append(os.readlink(each))
    return [link for link in found if link.startswith(f"{directory}/")]
