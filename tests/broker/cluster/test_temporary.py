"""The folder for temporary files after a program ends without stopping its broker."""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.programs import run_program

ENDINGS = {
    "at its end": "",
    "with SystemExit": "raise SystemExit(0)",
    "after it has run twice": "broker.stop(); broker.start()",
    "with two of them": "other = Broker(topics=['b']); other.start()",
    "forgotten": "del broker",
    "with a snapshot": "snapshot = broker.snapshot()",
    "on a loop that has ended": "import asyncio; asyncio.run(AsyncBroker(topics=['c']).start())",
}


def run(program: str, folder: Path) -> str:
    """Return the output of a program that starts a broker and then runs these lines."""
    start = (
        "import os, sys\nfrom minibroker import AsyncBroker, Broker\nbroker = Broker(topics=['a'])\nbroker.start()\n"
    )
    done = run_program(
        [sys.executable, "-W", "ignore", "-c", start + program], env={**os.environ, "TMPDIR": str(folder)}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_broker_that_nobody_stops_leaves_no_directory(tmp_path: Path, ending: str) -> None:
    run(ending, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_data_directory_that_was_given_stays(tmp_path: Path) -> None:
    data_dir = tmp_path / "kept"
    run(f"mine = Broker(topics=['mine'], data_dir={str(data_dir)!r})\nmine.start()", tmp_path)
    assert os.listdir(tmp_path) == ["kept"]
    assert (data_dir / "minibroker-topics.json").is_file()


@pytest.mark.parametrize(
    "child",
    [
        "if not (pid := os.fork()): sys.exit(0)\nos.waitpid(pid, 0)\n",
        "import multiprocessing\np = multiprocessing.get_context('fork').Process(target=int)\np.start()\np.join()\n",
    ],
    ids=["fork", "multiprocessing"],
)
def test_a_child_that_ends_leaves_its_parents_directory_alone(tmp_path: Path, child: str) -> None:
    setup = "broker.produce('a', 'x')\nsnapshot = broker.snapshot()\n"
    listing = "print(sorted(os.listdir(broker.data_dir)), sorted(os.listdir(snapshot.directory)))"
    assert run(f"{setup}{child}{listing}", tmp_path).count("a-0") == 2
    assert os.listdir(tmp_path) == []


def test_a_child_takes_its_own_directory_away(tmp_path: Path) -> None:
    child = "if not (pid := os.fork()):\n    Broker(topics=['b']).start()\n    sys.exit(0)\nos.waitpid(pid, 0)\n"
    assert run(f"{child}print(len(os.listdir({str(tmp_path)!r})))", tmp_path) == "1\n"
    assert os.listdir(tmp_path) == []


def killed(folder: Path) -> str:
    """Return the directory of a broker that was killed."""
    program = (
        "import os; from minibroker import Broker; b = Broker(topics=['a']); b.start(); print(b.data_dir, flush=True)"
    )
    child = run_program(
        [sys.executable, "-c", f"{program}; os.kill(os.getpid(), 9)"], env={**os.environ, "TMPDIR": str(folder)}
    )
    assert child.returncode == -signal.SIGKILL
    return child.stdout.strip()


def test_the_directory_of_a_killed_broker_goes_with_the_next_start(tmp_path: Path) -> None:
    abandoned = killed(tmp_path)
    shutil.copytree(abandoned, tmp_path / "minibroker-copied")
    (tmp_path / "minibroker-mine").mkdir()
    alive = "import time\nwhile os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint(os.path.exists(broker.data_dir))"
    assert os.path.isdir(abandoned)
    assert run(alive.replace("sys.argv[1]", repr(abandoned)), tmp_path) == "True\n"
    assert sorted(os.listdir(tmp_path)) == ["minibroker-copied", "minibroker-mine"]


def test_the_directory_of_a_broker_that_runs_stays(tmp_path: Path) -> None:
    from minibroker.cluster import temporary  # noqa: PLC0415 - a function of it is called alone

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path))
        path = temporary.make()
        temporary._remove_abandoned(str(tmp_path))  # pyright: ignore[reportPrivateUsage] - as a start does
        assert os.path.isdir(path)
        temporary.remove(path)
        assert os.listdir(tmp_path) == []
