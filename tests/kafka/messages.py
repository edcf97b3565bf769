"""The generated message classes of a version of kafka-clients, asked from Python: Messages.java in a JVM."""

import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Self

from tests.kafka.jvm import oracle_command
from tests.patience import PATIENCE_S

_SOURCE: Final = Path(__file__).with_name("Messages.java")
UNKNOWN: Final = "?"


class Messages:
    """The JVM of one version; use it in a `with` statement. NoJarsError where Java lacks its compiler."""

    def __init__(self, libs: Path) -> None:
        command = oracle_command(_SOURCE, libs, heap="256m")
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the JVM
        self._jvm = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        stdin, stdout = self._jvm.stdin, self._jvm.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.close()
            self._jvm.wait(PATIENCE_S)
        finally:
            self._jvm.kill()
            self._jvm.wait()
            stdout.close()
            self._complaints.close()

    def rewritten(self, kind: str, key: int, cases: Iterable[tuple[int, bytes]]) -> list[bytes | str]:
        """Kafka's bytes for each (version, bytes) of a "request" or a "response", or the reason why it cannot read it.

        `UNKNOWN` for a version that it does not have.
        """
        return self._ask([f"{kind} {key} {version} {data.hex() or '-'}" for version, data in cases])

    def refusals(self, key: int, cases: Iterable[tuple[int, int, bytes]]) -> list[bytes | str]:
        """The error response to each request (version, error code, bytes), or why there is none; `UNKNOWN` as above."""
        return self._ask([f"refuse {key} {version} {code} {data.hex() or '-'}" for version, code, data in cases])

    def _ask(self, lines: Sequence[str]) -> list[bytes | str]:
        stdin, stdout = self._jvm.stdin, self._jvm.stdout
        assert stdin is not None
        assert stdout is not None
        answers: list[bytes | str] = []
        for line in lines:
            stdin.write(line + "\n")
            stdin.flush()
            answer = stdout.readline().rstrip("\n")
            assert answer, self._story()
            answers.append(answer if answer[0] in {"!", UNKNOWN} else bytes.fromhex(answer.replace("-", "")))
        return answers

    def _story(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-2000:]
