"""Runs of Kafka's own tests: JVMs that run classes one after another, and files with the results."""

import contextlib
import json
import os
import queue
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.broker_process import environment
from tests.kafka import jars
from tests.kafka.own_tests.brokers import SCRATCH
from tests.kafka.own_tests.releases import Release
from tests.patience import PATIENCE_S

INSIDE_KAFKA: Final = "INSIDE-KAFKA"
"""In the message of a test that failed because it asked for a Java object that only Kafka's broker has."""
CLASSES_PER_JVM: Final = 20
"""The tests leave threads and memory behind, so a JVM ends after so many classes."""
_LONGEST_TEST_S: Final = 900.0
"""Seconds without a result after which a JVM is killed. JUnit ends tests before."""
_HEAP: Final = "1500m"


@dataclass(frozen=True)
class Result:
    """The result of one test: of a method, or of one of its invocations.

    Attributes:
        method: the name of the method; empty for a class that could not be set up.
        outcome: "passed", "failed" or "skipped".
    """

    class_name: str
    method: str
    test: str
    outcome: str
    message: str
    seconds: float

    @property
    def name(self) -> str:
        """The class without its package, and the method, as `applicability.read_lists` has them."""
        class_name = self.class_name.rpartition(".")[2]
        return f"{class_name}.{self.method}" if self.method else class_name

    @property
    def is_inside_kafka(self) -> bool:
        """Whether it failed because it needs a Java object of the broker."""
        return self.outcome == "failed" and INSIDE_KAFKA in self.message


class Jvm:
    """A JVM with `TestRun`, which takes classes to run from its stdin."""

    def __init__(self, release: Release, folder: Path, brokers_port: int, *, on_kafka: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._scratch = tempfile.mkdtemp(prefix="kafka-tests-")
        self._log = (folder / "jvm.log").open("ab")
        options = {
            "java.io.tmpdir": self._scratch,
            "log4j2.configurationFile": "log4j2.xml",
            "junit.jupiter.params.displayname.default": "{displayName}.{argumentsWithNames}",
            "minibroker.brokers": str(brokers_port),
            "minibroker.emulate": release.emulated,
        }
        self._child = subprocess.Popen(
            [
                *("nice", "-n", "5", jars.java(), f"-Xmx{_HEAP}", *jars.SHORT_LIVED),
                *(f"-D{key}={value}" for key, value in options.items()),
                *("-cp", os.pathsep.join(release.class_path(on_kafka=on_kafka)), "TestRun", "run"),
            ],
            cwd=self._scratch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.classes_run = 0

    @property
    def is_worn(self) -> bool:
        """Whether it has ended, or has run so many classes that another JVM should follow."""
        return self._child.poll() is not None or self.classes_run >= CLASSES_PER_JVM

    def run(self, class_name: str, methods: Iterable[str] = ()) -> Iterator[Result]:
        """Run a class, or some of its methods. A JVM that hangs or ends counts as a failure of the class."""
        assert self._child.stdin is not None
        self.classes_run += 1
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(" ".join([class_name, *methods]).encode() + b"\n")
            self._child.stdin.flush()
        for line in self._lines():
            value: dict[str, Any] = json.loads(line)
            if "end" in value:
                return
            yield Result(
                class_name, value["method"], value["test"], value["outcome"], value["message"], value["seconds"]
            )
        yield Result(class_name, "", class_name, "failed", "the JVM hung or ended before the tests did", 0.0)

    def _lines(self) -> Iterator[bytes]:
        """The lines of its stdout, until it ends or says nothing for too long."""
        assert self._child.stdout is not None
        number, received = self._child.stdout.fileno(), b""
        with selectors.DefaultSelector() as selector:
            selector.register(number, selectors.EVENT_READ)
            while selector.select(_LONGEST_TEST_S) and (chunk := os.read(number, 1 << 16)):
                *lines, received = (received + chunk).split(b"\n")
                yield from lines
        self._child.kill()

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(PATIENCE_S)
        finally:
            self._child.kill()
            self._child.wait()
            self._child.stdout.close()
            self._log.close()
            shutil.rmtree(self._scratch, ignore_errors=True)


@contextmanager
def fork_server(folder: Path) -> Generator[int]:
    """A fork server for brokers (`brokers.py`); its port."""
    folder.mkdir(parents=True, exist_ok=True)
    port_file = folder / "brokers.port"
    port_file.unlink(missing_ok=True)
    scratch = tempfile.mkdtemp(prefix="own-tests-")
    with (folder / "brokers.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.own_tests.brokers", str(port_file)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**environment(), SCRATCH: scratch},
        )
    assert child.stdin is not None
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not port_file.exists():
            assert child.poll() is None, f"the fork server ended: see {folder / 'brokers.log'}"
            assert time.monotonic() < deadline, "the fork server did not start"
            time.sleep(0.05)
        yield int(port_file.read_text())
    finally:
        child.stdin.close()
        child.wait(PATIENCE_S)
        shutil.rmtree(scratch, ignore_errors=True)


def run_classes(
    release: Release,
    classes: Sequence[str],
    folder: Path,
    *,
    lanes: int,
    methods: Mapping[str, Sequence[str]],
    on_kafka: bool = False,
    say: Callable[[str], None],
) -> None:
    """Run classes in several JVMs at a time, and write a file with the results of each class.

    A class that has such a file is skipped. Of a class that `methods` has, only these methods run.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for class_name in classes:
        if not results_file(folder, class_name).exists():
            waiting.put(class_name)

    with fork_server(folder) as port:

        def lane() -> None:
            jvm: Jvm | None = None
            with contextlib.suppress(queue.Empty):
                while True:
                    class_name = waiting.get_nowait()
                    if jvm is not None and jvm.is_worn:
                        jvm.close()
                        jvm = None
                    jvm = jvm or Jvm(release, folder, port, on_kafka=on_kafka)
                    results = list(jvm.run(class_name, methods.get(class_name, ())))
                    write_results(folder, class_name, results)
                    say(summary(class_name, results))
            if jvm is not None:
                jvm.close()

        threads = [threading.Thread(target=lane) for _ in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def summary(class_name: str, results: Sequence[Result]) -> str:
    """A line about the results of a class."""
    counts = {
        outcome: sum(result.outcome == outcome for result in results) for outcome in ("passed", "failed", "skipped")
    }
    inside = sum(result.is_inside_kafka for result in results)
    took = sum(result.seconds for result in results)
    return (
        f"{class_name}: {counts['passed']} passed, {counts['failed'] - inside} failed, {inside} {INSIDE_KAFKA}, "
        f"{counts['skipped']} skipped, {took:.0f} s"
    )


def results_file(folder: Path, class_name: str) -> Path:
    """The file with the results of a class."""
    return folder / f"{class_name}.json"


def write_results(folder: Path, class_name: str, results: Sequence[Result]) -> None:
    """Write the file with the results of a class, whole or not at all."""
    file = results_file(folder, class_name)
    file.with_suffix(".new").write_text(json.dumps([vars(result) for result in results], indent=1))
    file.with_suffix(".new").rename(file)


def read_results(folder: Path, classes: Iterable[str]) -> list[Result]:
    """Read the results of classes; those that have not run have none."""
    files = [results_file(folder, class_name) for class_name in classes]
    return [Result(**fields) for file in files if file.exists() for fields in json.loads(file.read_text())]
