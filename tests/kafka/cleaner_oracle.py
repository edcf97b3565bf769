"""Kafka's own log cleaner, asked from Python: CleanerOracle.java in a JVM that lives as long as the tests need it."""

import contextlib
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

from minibroker_storage.cleaner.plan import ActiveProducer
from tests.kafka import jars

_SOURCE: Final = Path(__file__).with_name("CleanerOracle.java")
_JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_TIMEOUT: Final = 30


class Cleaned(NamedTuple):
    """What Kafka thought of a log, and whether it has cleaned it: `next_dirty_offset` is None if not."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_clean: bool
    next_dirty_offset: int | None
    producers: tuple[ActiveProducer, ...]


class CleanerOracle:
    """The JVM. Use it in a `with` statement. NoJarsError where Java lacks its compiler."""

    def __init__(self, libs: Path) -> None:
        if "jdk.compiler" not in jars.java_modules():
            raise jars.NoJarsError("this Java has no compiler: the oracle is a source file, and needs a JDK")
        command = [jars.java(), *_JVM, "-cp", f"{libs}/*", str(_SOURCE)]
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM
        self._jvm = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                self._jvm.stdin.close()
            self._jvm.wait(_TIMEOUT)
        finally:
            self._jvm.kill()
            self._jvm.wait()
            self._jvm.stdout.close()
            self._complaints.close()

    def clean(
        self,
        directory: Path,
        *,
        first_dirty_offset: int | None,
        now_ms: int,
        map_bytes: int,
        force: bool,
        configs: Mapping[str, object],
    ) -> Cleaned:
        """Let Kafka open the log as after a crash, clean it when that is due, or at all possible, and close it."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        dirty = -1 if first_dirty_offset is None else first_dirty_offset
        fields = [str(directory), str(dirty), str(now_ms), str(map_bytes), str(force).lower()]
        fields += (f"{name}={value}" for name, value in configs.items())
        print(*fields, sep="\t", file=self._jvm.stdin)
        answer = self._jvm.stdout.readline().rstrip("\n")
        if not answer or answer.startswith("!"):
            self._complaints.seek(0)
            raise AssertionError(f"{answer}\n{self._complaints.read().decode()}")
        *numbers, must, following, producers = answer.split("\t")
        first_dirty, first_uncleanable, clean_bytes, cleanable_bytes = map(int, numbers)
        return Cleaned(
            first_dirty,
            first_uncleanable,
            clean_bytes,
            cleanable_bytes,
            must == "true",
            None if following == "-1" else int(following),
            tuple(ActiveProducer(*map(int, one.split(":"))) for one in producers.split(",") if one),
        )
