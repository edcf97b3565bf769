"""The generated message classes of a version of kafka-clients, asked from Python: Messages.java in a JVM."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("Messages.java")
UNKNOWN: Final = "?"


class Messages(LineOracle):
    """The JVM of one version."""

    def __init__(self, libs: Path) -> None:
        super().__init__(_SOURCE, libs, heap="256m")

    def rewritten(self, kind: str, key: int, cases: Iterable[tuple[int, bytes]]) -> list[bytes | str]:
        """Kafka's bytes for each (version, bytes) of a "request" or a "response", or the reason why it cannot read it.

        `UNKNOWN` for a version that it does not have.
        """
        return self._ask([f"{kind} {key} {version} {data.hex() or '-'}" for version, data in cases])

    def refusals(self, key: int, cases: Iterable[tuple[int, int, bytes]]) -> list[bytes | str]:
        """The error response to each request (version, error code, bytes), or why there is none; `UNKNOWN` as above."""
        return self._ask([f"refuse {key} {version} {code} {data.hex() or '-'}" for version, code, data in cases])

    def _ask(self, lines: Sequence[str]) -> list[bytes | str]:
        answers: list[bytes | str] = []
        for line in lines:
            answer = self.ask(line)
            assert answer, self.complaints()[-2000:]
            answers.append(answer if answer[0] in {"!", UNKNOWN} else bytes.fromhex(answer.replace("-", "")))
        return answers
