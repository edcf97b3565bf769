"""`make torture`: run all tests with all their rows, then kill brokers, clients and streams and look what is left.

It is done in parts, in the order of `PARTS`. A part that has passed is noted in the directory and skipped by the next
run there, so that a run can be interrupted, or run in the background, and continued. `--help` lists the parts.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import pytest

from minibroker_pipeline import jars
from tests.documented import ROOT
from tests.kafka.own_tests import campaign as own_tests
from tests.kafka.own_tests.releases import MODULES, RELEASES
from tests.torture import coordinator_steps, steps
from tests.torture.campaign import Campaign as Kills
from tests.torture.copier_process import PROGRAMS, CopierProgram
from tests.torture.copy_campaign import CopyCampaign
from tests.torture.fuzz import campaign as fuzzing
from tests.torture.machine_crashes import MachineCrashes
from tests.torture.replacements import Replacements
from tests.torture.share_campaign import ShareCampaign
from tests.torture.shortages import Shortages
from tests.torture.stream_campaign import StreamCampaign
from tests.torture.stream_runs import StreamProcess
from tests.torture.workload import TOPICS

DIRECTORY: Final = ROOT / "build" / "torture"
ROOMS: Final = {
    f"test-{room.replace('_', '-')}": f"tests/{room}"
    for room in (
        *("storage", "protocol", "broker", "pytest_plugin", "command_line_tools", "clients", "docker", "kafka"),
        *("pipeline", "torture", "chaos", "registry"),
    )
}
"""The parts that run all tests of a room with all their rows, by name."""
BLACK_BOX: Final = (
    *("tests/clients", "tests/command_line_tools", "tests/docker/test_contracts.py"),
    *("tests/broker/cli/test_cli.py", "tests/broker/cli/test_dump_command.py"),
)
"""The tests that MINIBROKER_BINARY gives the self-contained program in the place of this Python's packages."""
PROCESSES: Final = 2
OWN_TESTS_AT_ONCE: Final = 2


class Campaign(Protocol):
    """Rounds under one seed; `run` returns what they have counted, and raises when something was lost."""

    def run(self, rounds: int, /) -> Counter[str]: ...


def repeat(
    options: argparse.Namespace,
    name: str,
    counted: str,
    rounds: int,
    most_rounds: int,
    campaign: Callable[[Path, int], Campaign],
) -> None:
    """Run campaigns until they have counted so many rounds, each with the next seed and a directory of its own.

    `counted` names the rounds in the counts. The directory of a campaign that fails is kept.
    """
    total: Counter[str] = Counter()
    rounds = options.rounds or rounds
    seed = options.seed
    while total[counted] < rounds:
        directory = options.directory / f"{name}-{seed}"
        try:
            total += campaign(directory, seed).run(min(most_rounds, rounds - total[counted]))
        except BaseException:
            say(f"Failed after {total[counted]} {counted}; {directory} is kept. Again: {name} --seed {seed} --verbose")
            raise
        shutil.rmtree(directory)
        say(f"{name}, seed {seed}: {total[counted]} {counted}, and nothing was lost")
        seed += 1
    for count_name, count in total.most_common():
        say(f"{count:12,} {count_name}")


def crashes(options: argparse.Namespace) -> None:
    """Crash machines while topics, configurations and users change: 400 times."""
    repeat(options, "crashes", "crashes", 400, 40, MachineCrashes)


def replacements(options: argparse.Namespace) -> None:
    """Kill brokers within snapshots, restores, resets, seeds, deletions and imports: 2,000 times."""
    repeat(options, "replacements", "kills", 2000, 200, Replacements)


def shortages(options: argparse.Namespace) -> None:
    """Withhold file descriptors from a broker: 1,200 times."""
    repeat(options, "shortages", "shortages", 1200, 60, Shortages)


def kills(options: argparse.Namespace) -> None:
    """Kill a broker under producers and consumers of all formats: 500 times."""
    names = options.topics.split(",")
    topics = [topic for topic in TOPICS if topic.name in names]
    # All data is read after every kill, so the directory is begun again now and then.
    make = partial(Kills, topics=topics, keep_crashed=True, on_round=on_round(options))
    repeat(options, "kills", "kills", 500, 20, make)


def shares(options: argparse.Namespace) -> None:
    """Kill a broker under a share consumer: 200 times."""
    repeat(options, "shares", "kills", 200, 20, ShareCampaign)


def copies(options: argparse.Namespace) -> None:
    """Kill brokers and copiers amid exactly-once copies: 100 times for each client."""
    for program in options.clients:
        try:
            program.command()
        except pytest.skip.Exception as reason:  # a toolchain is missing; with CI set that fails
            say(f"{program.name} is skipped: {reason}")
            continue
        make = partial(
            CopyCampaign, program=program, bootstrap=options.bootstrap, keep_crashed=True, on_round=on_round(options)
        )
        repeat(options, "copies", "kills", 100, 20, make)


def streams(options: argparse.Namespace) -> None:
    """Kill brokers and Sparks under a stream to Parquet: 50 times."""
    if not has_spark():
        return

    def make(directory: Path, seed: int) -> StreamCampaign:
        run = partial(StreamProcess, log=directory / "spark.log")
        return StreamCampaign(directory, seed, run, on_round=on_round(options))

    repeat(options, "streams", "rounds", 50, 20, make)


def fuzz(options: argparse.Namespace) -> None:
    """Send hostile requests, or those of `--replay`: for 240 seconds."""
    if options.replay is not None:
        judge(fuzzing.replay(options.directory, options.replay, options.seed))
    else:
        judge(fuzzing.run(options.directory, options.seed, seconds=options.rounds or 240, say=say))


def every_step(options: argparse.Namespace) -> None:
    """Kill a broker without sockets at every system call that changes a file."""
    for subject, module in (("logs", steps), ("coordinators", coordinator_steps)):
        count = module.steps_of(options.directory / f"whole-{subject}", options.seed).calls
        for step in range(count):
            for torn in (False, True):
                directory = options.directory / f"{subject}-{options.seed}-step-{step}"
                module.kill_at(directory, options.seed, step, torn=torn)
                shutil.rmtree(directory)
        say(f"{subject}, seed {options.seed}: killed at each of {count} steps, and within each write")


def kafkas_tests(options: argparse.Namespace) -> None:
    """Run Kafka's own tests, which takes hours; those with results in build/own-tests are not repeated."""
    campaign = own_tests.Campaign(options.emulate, options.modules.split(","), own_tests.DIRECTORY)
    campaign.run(OWN_TESTS_AT_ONCE, say)
    if campaign.report(say):
        raise SystemExit("Kafka's own tests failed")


def test_binary(options: argparse.Namespace) -> None:
    """Build the program that needs no Python, and run with it what a user's clients, tools and projects do."""
    dist = options.directory / "binary"
    shutil.rmtree(dist, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "binary.build", dist], cwd=ROOT, check=True)
    (archive,) = dist.glob("minibroker-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(dist, filter="data")
    run_tests(*BLACK_BOX, MINIBROKER_BINARY=str(dist / "minibroker/minibroker"))


def types(options: argparse.Namespace) -> None:
    """Check the types of the product with pyright, as editors do; `make lint` checks all types with mypy."""
    del options
    programs = Path(sys.executable).parent
    subprocess.run([programs / "pyright", "--pythonpath", sys.executable], cwd=ROOT, check=True)


def test_room(folder: str, options: argparse.Namespace) -> None:
    """Run all tests of a room with all their rows."""
    del options
    run_tests(folder)


def run_tests(*paths: str, **variables: str) -> None:
    """Run the tests of these files and folders with all their rows.

    Raises:
        SystemExit: If a test fails.
    """
    command = [sys.executable, "-m", "pytest", "-q", f"--numprocesses={PROCESSES}", "--hypothesis-profile=torture"]
    command += ["--dist=loadfile", "--no-loadscope-reorder", *paths]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False)
    if done.returncode:
        raise SystemExit(f"pytest ended with {done.returncode}")


PARTS: Final[dict[str, Callable[[argparse.Namespace], None]]] = {
    **{name: partial(test_room, folder) for name, folder in ROOMS.items()},
    "types": types,
    "test-binary": test_binary,
    "crashes": crashes,
    "replacements": replacements,
    "shortages": shortages,
    "kills": kills,
    "shares": shares,
    "copies": copies,
    "streams": streams,
    "fuzz": fuzz,
    "steps": every_step,
    "own-tests": kafkas_tests,
}
PURPOSES: Final = {name: f"Run all tests of {folder} with all their rows." for name, folder in ROOMS.items()}


def main() -> int:
    options = arguments()
    os.makedirs(options.directory, exist_ok=True)
    failed = []
    for name in options.parts or PARTS:
        passed = options.directory / f"{name}.passed"
        if passed.exists() and not options.parts:
            say(f"== {name}: passed before")
            continue
        say(f"== {name}")
        passed.unlink(missing_ok=True)
        began = time.monotonic()
        try:
            PARTS[name](options)
        except (Exception, SystemExit, pytest.fail.Exception):  # noqa: BLE001 - the other parts are run all the same
            traceback.print_exc()
            failed.append(name)
            continue
        passed.touch()
        say(f"== {name}: passed in {time.monotonic() - began:.0f} s")
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    described = "\n".join(f"  {name:24} {PURPOSES.get(name, PARTS[name].__doc__)}" for name in PARTS)
    parser = argparse.ArgumentParser(
        prog="make torture",
        description="Run all tests with all their rows, then kill brokers and look what is left.",
        epilog=f"parts:\n{described}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("parts", nargs="*", metavar="PART", help="run these, also if they passed before (default: all)")
    option("--directory", type=Path, default=DIRECTORY, metavar="DIR", help="for data and for what has passed")
    option("--rounds", type=int, metavar="N", help="how many kills, rows or seconds (default: as below)")
    option("--seed", type=int, default=int(time.time()), metavar="S", help="of the first campaign (default: the time)")
    option("--verbose", action="store_true", help="say how each round ended")
    topics = ",".join(topic.name for topic in TOPICS)
    option("--topics", default=topics, metavar="NAME,...", help="of kills (default: %(default)s)")
    clients = ",".join(PROGRAMS)
    option("--clients", type=copiers, default=clients, metavar="NAME,...", help="of copies (default: %(default)s)")
    option("--bootstrap", metavar="HOST:PORT", help="of copies: another broker, of which only the copiers are killed")
    option("--replay", type=Path, metavar="FILE", help="of fuzz: send the requests of a finding again, with its --seed")
    option("--emulate", choices=RELEASES, default=own_tests.NEWEST, help="of own-tests (default: %(default)s)")
    modules = ",".join(MODULES)
    option("--modules", default=modules, metavar="NAME,...", help="of own-tests (default: %(default)s)")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"unknown parts: {', '.join(unknown)}")
    return options


def copiers(names: str) -> list[CopierProgram]:
    """Return the programs of `--clients`.

    Raises:
        argparse.ArgumentTypeError: If a name has no program.
    """
    unknown = [name for name in names.split(",") if name not in PROGRAMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)} (known: {', '.join(PROGRAMS)})")
    return [PROGRAMS[name] for name in names.split(",")]


def judge(findings: fuzzing.Findings) -> None:
    """Print what hostile requests have led to.

    Raises:
        SystemExit: If a broker failed, or was busy for too long.
    """
    for line in findings.lines():
        say(line)
    for name, count in findings.counts.most_common():
        say(f"{count:12,} {name}")
    if findings.faults or any(hold.again > fuzzing.MOST_HOLD_MS for hold in findings.holds.values()):
        raise SystemExit("hostile requests were not survived")


def has_spark() -> bool:
    """Return whether Spark can run, and say so if it cannot. With CI set it has to."""
    try:
        jars.java()
        jars.find()
    except jars.NoJarsError as reason:
        if os.environ.get("CI"):
            raise
        say(f"skipped: {reason}")
        return False
    return True


def on_round(options: argparse.Namespace) -> Callable[[str], None] | None:
    """Return what is told of each round."""
    return say if options.verbose else None


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - it is a program


if __name__ == "__main__":
    sys.exit(main())
