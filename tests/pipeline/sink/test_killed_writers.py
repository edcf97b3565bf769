"""A writer that is killed at any moment has written all of a query or nothing, and does not block the next writer.

`python -m tests.pipeline.sink.test_killed_writers 200` kills two hundred writers.
"""

import random
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

import pytest

from minibroker.cluster.data_dir import DataDir
from minibroker_pipeline.jobs.verify import verify
from minibroker_pipeline.log_directories.directory_commit import check_writable
from minibroker_storage.data_directory.staged_write import UNFINISHED
from tests.pipeline.sink.writing import Row, values, write

TOPICS: Final = ("a", "b", "c")
ROWS: Final = 12
"""The number of rows for each topic in a query."""


def rows(query: int) -> list[Row]:
    return [
        {"value": b"%d" % (query * ROWS + number), "topic": topic, "partition": 0}
        for topic in TOPICS
        for number in range(ROWS)
    ]


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write_for_ever(target: str) -> None:
    """Run one query after the other, and print a line after each."""
    query = len(values(target).get(("a", 0), ())) // ROWS if Path(target).exists() else 0
    while True:
        query_rows = rows(query)
        write(target, query_rows[::2], query_rows[1::2], batchBytes=40, segmentBytes=600)
        query += 1
        tell(str(query))


def kill_once(target: Path, chance: random.Random) -> tuple[int, str]:
    """Start a writer and kill it. Return the number of written queries, and the state of the directory."""
    command = [sys.executable, "-m", "tests.pipeline.sink.test_killed_writers", str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        completed = int(writer.stdout.readline())  # The writer is now at work.
        timer = threading.Timer(chance.uniform(0, 0.3), writer.send_signal, (signal.SIGKILL,))
        timer.start()
        completed = max([completed, *map(int, writer.stdout)])
    is_unfinished = (target / UNFINISHED).exists()
    staged = [path for path in target.iterdir() if path.name.endswith("-delete")]
    if chance.random() < 0.5:
        check_writable(str(target))  # The next writer does this first.
    else:
        DataDir(str(target)).release()  # A broker does this first.
    assert not (target / UNFINISHED).exists()
    result = values(target)
    counts = {len(result[topic, 0]) for topic in TOPICS}
    assert counts in (
        {completed * ROWS},
        {(completed + 1) * ROWS},
    )  # The kill can precede the line about a written query.
    for topic in TOPICS:
        assert sorted(int(value or b"") for value in result[topic, 0]) == list(range(counts.copy().pop()))
    assert list(verify([str(target)], processes=1).findings) == []
    return counts.pop() // ROWS, "unfinished" if is_unfinished else "aside" if staged else "nothing"


@pytest.mark.torture
def test_writers_killed_at_random_moments_have_written_all_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(9)
    for _ in range(2):
        kill_once(tmp_path / "data", chance)


def main(argument: str) -> None:
    """Kill this number of writers, or run as the writer."""
    if not argument.isdecimal():
        write_for_ever(argument)
    result: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        for number in range(int(argument)):
            completed, how = kill_once(Path(directory) / f"data-{number // 20}", random.Random(number))
            result[how] = result.get(how, 0) + 1
            tell(f"kill {number + 1}: {completed} queries are there; {result}")


if __name__ == "__main__":
    main(sys.argv[1])
