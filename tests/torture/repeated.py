"""Campaigns of one kind, one after another, and the options that repeat one that failed."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

CAMPAIGNS: Final = ("kills", "crashes", "replacements", "shortages", "shares", "copies", "streams", "fuzz")
"""The options that say how much each campaign does."""


def alone(campaign: str) -> str:
    """Return the options that leave out all other campaigns."""
    return " ".join(f"--{name} 0" for name in CAMPAIGNS if name != campaign)


class Campaign(Protocol):
    def run(self, rounds: int, /) -> Counter[str]: ...


class Repeated(NamedTuple):
    """Each campaign has the next seed, a directory of its own, and at most so many rounds."""

    option: str
    counter: str
    most_rounds: int
    finding: str

    def run(
        self, root: Path, seed: int, rounds: int, campaign: Callable[[Path, int], Campaign], say: Callable[[str], None]
    ) -> None:
        """Run campaigns until they have counted so many rounds; keep the directory of one that fails."""
        total: Counter[str] = Counter()
        while total[self.counter] < rounds:
            directory = root / f"{self.option}-{seed}"
            try:
                total += campaign(directory, seed).run(min(self.most_rounds, rounds - total[self.counter]))
            except BaseException:
                again = f"{alone(self.option)} --{self.option} {self.most_rounds} --seed {seed}"
                say(f"Failed. Again: {again}; {directory} is kept")
                raise
            shutil.rmtree(directory)
            say(f"{self.option}, seed {seed}: {total[self.counter]} {self.counter}, and {self.finding}")
            seed += 1
        for name, count in total.most_common():
            say(f"{count:12,} {name}")
