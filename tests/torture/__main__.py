"""`make torture`: kill brokers again and again, and see that nothing is lost; `--help` tells what can be chosen."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.torture.campaign import Campaign
from tests.torture.steps import kill_at, steps_of
from tests.torture.workload import TOPICS

KILLS_IN_A_ROW = 20
"""Then a new data directory is begun: all of it is read after every kill."""


def main() -> int:
    options = arguments()
    seed = int(time.time()) if options.seed is None else options.seed
    root = options.directory or Path(tempfile.mkdtemp(prefix="minibroker-torture-"))
    if options.steps:
        kill_at_every_step(root, seed)
    else:
        kill_at_random(root, seed, options)
    return 0


def kill_at_random(root: Path, seed: int, options: argparse.Namespace) -> None:
    wanted = options.topics.split(",")
    topics = [topic for topic in TOPICS if topic.name in wanted]
    total: Counter[str] = Counter()
    began = time.monotonic()
    while total["kills"] < options.kills:
        directory = root / f"seed-{seed}"
        campaign = Campaign(directory, seed, topics, keep_crashed=True, on_round=say if options.verbose else None)
        try:
            total += campaign.run(min(KILLS_IN_A_ROW, options.kills - total["kills"]))
        except BaseException:
            say(f"Failed after {total['kills'] + campaign.kills} kills. Again: --seed {seed} --verbose")
            say(f"{directory} is kept: `data` as it is now, `crashed` as it was before the last start, `stderr`.")
            raise
        shutil.rmtree(directory)
        say(f"seed {seed}: {total['kills']} kills in {time.monotonic() - began:.0f} s, and nothing was lost")
        seed += 1
    for name, count in total.most_common():
        say(f"{count:12,} {name}")


def kill_at_every_step(root: Path, seed: int) -> None:
    steps = steps_of(root / "whole", seed).calls
    for step in range(steps):
        for torn in (False, True):
            directory = root / f"seed-{seed}-step-{step}"
            kill_at(directory, seed, step, torn=torn)
            shutil.rmtree(directory)
    say(f"seed {seed}: killed at each of {steps} steps, and within each write, and nothing was lost")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description="Kill brokers, and see that nothing is lost.")
    option = parser.add_argument
    option("--kills", type=int, default=500, metavar="N", help="how often (default: %(default)s)")
    option(
        "--seed", type=int, metavar="S", help="of the first data directory; the next one has S + 1 (default: the time)"
    )
    names = ",".join(topic.name for topic in TOPICS)
    option("--topics", default=names, metavar="NAME,...", help="default: %(default)s")
    option(
        "--steps", action="store_true", help="a broker without sockets, killed at every system call that changes files"
    )
    option("--directory", type=Path, metavar="DIR", help="for the data (default: a temporary directory)")
    option("--verbose", action="store_true", help="say how each round ended")
    return parser.parse_args()


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it talks to whoever runs it


if __name__ == "__main__":
    sys.exit(main())
