"""Kafka's own classes, asked from Python: a Java source in a JVM that lives as long as the tests need it."""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Self

from tests.kafka.jvm import oracle_command
from tests.patience import PATIENCE_S


class JavaOracle:
    """The JVM. Use it in a `with` statement. NoJarsError where Java lacks its compiler."""

    def __init__(self, source: Path, libs: Path, *, heap: str) -> None:
        java, *words = oracle_command(source, libs, heap=heap)
        command = [java, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", *words]
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM
        self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        stdin, stdout = self.pipes()
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
            self._jvm.wait(PATIENCE_S)
        finally:
            self._jvm.kill()
            self._jvm.wait()
            stdout.close()
            self._complaints.close()

    def complaints(self) -> str:
        """The stderr of the JVM so far."""
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")

    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Its standard input and output."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        return self._jvm.stdin, self._jvm.stdout


class LineOracle(JavaOracle):
    """An oracle that is asked line by line, with tabs between the fields, and answers so."""

    def ask(self, *fields: str) -> str:
        """The answer to one question, without the end of its line."""
        stdin, stdout = self.pipes()
        stdin.write(("\t".join(fields) + "\n").encode())
        stdin.flush()
        return stdout.readline().decode().rstrip("\n")
