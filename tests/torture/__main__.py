"""`make torture`: kill brokers again and again, and see that nothing is lost; `--help` tells what can be chosen.

First under producers and consumers of all formats, then under a share consumer, then under copies that have to be
exactly once, then under a stream of Spark's to Parquet. With `--equal` rows are compared besides, and nothing is killed
while they are. With `--own-tests` Kafka's own tests run, and nothing else. A run without any choice begins with the
sweeps of which `make test` takes samples.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from minibroker_pipeline.connector import jars
from tests.kafka.own_tests import campaign as own_tests
from tests.kafka.own_tests.releases import MODULES, RELEASES
from tests.torture import coordinator_steps, equality, steps, sweeps
from tests.torture.campaign import Campaign
from tests.torture.copier_process import PROGRAMS, CopierProgram
from tests.torture.copy_campaign import CopyCampaign
from tests.torture.fuzz import campaign as fuzzing
from tests.torture.machine_crashes import MachineCrashes
from tests.torture.repeated import Repeated, alone
from tests.torture.replacements import Replacements
from tests.torture.share_campaign import ShareCampaign
from tests.torture.shortages import Shortages
from tests.torture.stream_campaign import StreamCampaign
from tests.torture.stream_runs import StreamProcess
from tests.torture.workload import TOPICS

KILLS_IN_A_ROW = 20
"""Then a new data directory is begun: all of it is read after every kill."""

CRASHES_IN_A_ROW = 40
OWN_TESTS_AT_ONCE = 2
SHORTAGES_IN_A_ROW = 60
REPLACEMENTS_IN_A_ROW = 200


def main() -> int:
    options = arguments()
    if options.sweeps or len(sys.argv) == 1:
        status = sweeps.run()
        if status or options.sweeps:
            return status
    if options.own_tests:
        return run_own_tests(options)
    seed = int(time.time()) if options.seed is None else options.seed
    root = options.directory or Path(tempfile.mkdtemp(prefix="minibroker-torture-"))
    if options.steps:
        kill_at_every_step(root, seed)
        return 0
    if options.replay is not None:
        return judge(fuzzing.replay(root, options.replay, seed))
    if not options.bootstrap:
        torment_brokers(root, seed, options)
    for program in options.clients if options.copies else ():
        kill_copies(root, seed, program, options)
    if options.streams and not options.bootstrap and has_spark("streams"):
        kill_streams(root, seed, options)
    if options.equal and has_spark("rows"):
        compare_rows(root, seed, options.equal)
    if options.fuzz and not options.bootstrap:
        return judge(fuzzing.run(root, seed, seconds=options.fuzz, say=say))
    return 0


def run_own_tests(options: argparse.Namespace) -> int:
    """Run Kafka's own tests of some modules; the exit status."""
    campaign = own_tests.Campaign(
        options.emulate, options.own_tests.split(","), options.directory or own_tests.DIRECTORY
    )
    campaign.run(OWN_TESTS_AT_ONCE, say)
    return campaign.report(say)


def copiers(names: str) -> list[CopierProgram]:
    """The programs of `--clients`. ArgumentTypeError for a name that has none."""
    unknown = [name for name in names.split(",") if name not in PROGRAMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)} (known: {', '.join(PROGRAMS)})")
    return [PROGRAMS[name] for name in names.split(",")]


def torment_brokers(root: Path, seed: int, options: argparse.Namespace) -> None:
    if options.crashes:
        crash_machines(root, seed, options.crashes)
    if options.replacements:
        finding = "each left the state before or the state after"
        campaigns = Repeated("replacements", "kills", REPLACEMENTS_IN_A_ROW, finding)
        campaigns.run(root, seed, options.replacements, Replacements, say)
    if options.shortages:
        withhold_descriptors(root, seed, options.shortages)
    if options.kills:
        kill_at_random(root, seed, options)
    if options.shares:
        kill_under_shares(root, seed, options.shares)


def judge(findings: fuzzing.Findings) -> int:
    """Say what hostile requests have led to; the exit status."""
    for line in findings.lines():
        say(line)
    for name, count in findings.counts.most_common():
        say(f"{count:12,} {name}")
    too_long = any(hold.again > fuzzing.MOST_HOLD_MS for hold in findings.holds.values())
    return 1 if findings.faults or too_long else 0


def kill_at_random(root: Path, seed: int, options: argparse.Namespace) -> None:
    names = options.topics.split(",")
    topics = [topic for topic in TOPICS if topic.name in names]
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


def crash_machines(root: Path, seed: int, crashes: int) -> None:
    campaigns = Repeated("crashes", "crashes", CRASHES_IN_A_ROW, "no acknowledged metadata was lost")
    campaigns.run(root, seed, crashes, MachineCrashes, say)


def withhold_descriptors(root: Path, seed: int, shortages: int) -> None:
    finding = "nothing acknowledged was lost, and nothing refused was there"
    Repeated("shortages", "shortages", SHORTAGES_IN_A_ROW, finding).run(root, seed, shortages, Shortages, say)


def kill_under_shares(root: Path, seed: int, kills: int) -> None:
    campaigns = Repeated("shares", "kills", KILLS_IN_A_ROW, "what was acknowledged is done with, and nothing else")
    campaigns.run(root, seed, kills, ShareCampaign, say)


def kill_copies(root: Path, seed: int, program: CopierProgram, options: argparse.Namespace) -> None:
    try:
        program.command()
    except pytest.skip.Exception as reason:  # a toolchain is missing; with CI set that fails
        say(f"{program.name} is skipped: {reason}")
        return
    total: Counter[str] = Counter()
    began = time.monotonic()
    while total["kills"] < options.copies:
        directory = root / f"{program.name}-{seed}"
        on_round = say if options.verbose else None
        campaign = CopyCampaign(
            directory, seed, program, bootstrap=options.bootstrap, keep_crashed=True, on_round=on_round
        )
        try:
            total += campaign.run(min(KILLS_IN_A_ROW, options.copies - total["kills"]))
        except BaseException:
            again = f"--clients {program.name} {alone('copies')} --seed {seed} --verbose"
            say(f"Failed after {total['kills'] + campaign.kills} kills. Again: {again}")
            say(f"{directory} is kept: `data` as it is now, `crashed` as the last kill left it, logs of all processes.")
            raise
        shutil.rmtree(directory)
        say(f"{program.name}, seed {seed}: {total['kills']} kills in {time.monotonic() - began:.0f} s, exactly once")
        seed += 1
    for name, count in total.most_common():
        say(f"{count:12,} {name}")


def has_spark(subject: str) -> bool:
    """Whether Spark can run; if not, that `what` is skipped has been said. Under CI it has to."""
    try:
        jars.java()
        jars.find()
    except jars.NoJarsError as reason:
        if os.environ.get("CI"):
            raise
        say(f"{subject} are skipped: {reason}")
        return False
    return True


def compare_rows(root: Path, seed: int, records: int) -> None:
    directory = root / f"equal-{seed}"
    try:
        equality.run(directory, seed, records, say)
    except BaseException:
        say(f"Failed. Again: {alone('streams')} --streams 0 --equal {records} --seed {seed}; {directory} is kept")
        raise
    shutil.rmtree(directory)


def kill_streams(root: Path, seed: int, options: argparse.Namespace) -> None:
    total: Counter[str] = Counter()
    began = time.monotonic()
    while total["rounds"] < options.streams:
        directory = root / f"stream-{seed}"
        log = directory / "spark.log"
        on_round = say if options.verbose else None
        campaign = StreamCampaign(directory, seed, partial(StreamProcess, log=log), on_round=on_round)
        try:
            total += campaign.run(min(KILLS_IN_A_ROW, options.streams - total["rounds"]))
        except BaseException:
            rounds = total["rounds"] + campaign.rounds
            say(f"Failed after {rounds} rounds. Again: {alone('streams')} --seed {seed} --verbose")
            say(f"{directory} is kept: `data`, `parquet`, `checkpoint`, `stderr` of the broker, `spark.log`.")
            raise
        shutil.rmtree(directory)
        say(f"streams, seed {seed}: {total['rounds']} rounds in {time.monotonic() - began:.0f} s, exactly once")
        seed += 1
    for name, count in total.most_common():
        say(f"{count:12,} {name}")


def kill_at_every_step(root: Path, seed: int) -> None:
    for subject, module in (("logs", steps), ("coordinators", coordinator_steps)):
        count = module.steps_of(root / f"whole-{subject}", seed).calls
        for step in range(count):
            for torn in (False, True):
                directory = root / f"{subject}-seed-{seed}-step-{step}"
                module.kill_at(directory, seed, step, torn=torn)
                shutil.rmtree(directory)
        say(f"{subject}, seed {seed}: killed at each of {count} steps, and within each write, and nothing was lost")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description="Kill brokers, and see that nothing is lost.")
    option = parser.add_argument
    option("--kills", type=int, default=500, metavar="N", help="how often under load (default: %(default)s)")
    option("--crashes", type=int, default=400, metavar="N", help="how often with the machine (default: %(default)s)")
    option(
        "--replacements",
        type=int,
        default=2000,
        metavar="N",
        help="how often within snapshots, restores, resets, seeds, deletions and imports (default: %(default)s)",
    )
    option(
        "--shortages",
        type=int,
        default=1200,
        metavar="N",
        help="how often descriptors are short (default: %(default)s)",
    )
    option("--shares", type=int, default=200, metavar="N", help="how often under shares (default: %(default)s)")
    option(
        "--copies",
        type=int,
        default=100,
        metavar="N",
        help="how often under copies of each client (default: %(default)s)",
    )
    option(
        "--streams",
        type=int,
        default=50,
        metavar="N",
        help="how often under a stream of Spark's (default: %(default)s)",
    )
    option(
        "--fuzz",
        type=float,
        default=240,
        metavar="SECONDS",
        help="for how long hostile requests are sent (default: %(default)s)",
    )
    option("--sweeps", action="store_true", help="only the sweeps of which make test takes samples, as a whole")
    option(
        "--own-tests",
        nargs="?",
        const=",".join(MODULES),
        metavar="MODULE,...",
        help="only Kafka's own tests (default: of %(const)s); a run in the same --directory continues",
    )
    option("--emulate", choices=RELEASES, default=own_tests.NEWEST, help="their release (default: %(default)s)")
    option("--replay", type=Path, metavar="FILE", help="send the requests of a finding again, with its --seed")
    option(
        "--clients",
        type=copiers,
        default=",".join(PROGRAMS),
        metavar="NAME,...",
        help="the programs that copy (default: %(default)s)",
    )
    option("--bootstrap", metavar="HOST:PORT", help="of another broker, such as Kafka: only copiers are killed")
    option(
        "--seed", type=int, metavar="S", help="of the first data directory; the next one has S + 1 (default: the time)"
    )
    names = ",".join(topic.name for topic in TOPICS)
    option("--topics", default=names, metavar="NAME,...", help="default: %(default)s")
    option(
        "--steps", action="store_true", help="a broker without sockets, killed at every system call that changes files"
    )
    option(
        "--equal",
        type=int,
        nargs="?",
        const=5_000_000,
        default=0,
        metavar="N",
        help="N records of 100 bytes for each codec, and a fifth as many of 1000, have to be the same rows for Spark"
        " through the broker and from its files (default: none; N: %(const)s)",
    )
    option("--directory", type=Path, metavar="DIR", help="for the data (default: a temporary directory)")
    option("--verbose", action="store_true", help="say how each round ended")
    return parser.parse_args()


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it is a program


if __name__ == "__main__":
    sys.exit(main())
