"""Programs that make transactions through the clients of other languages, driven by lines of JSON.

A program gets one argument, the JSON of `TransactorOptions`. It answers each command, one JSON object a line, with one
line `{"event": "done", "error": None or a text, ...}`; the first line of this kind says that the client has its
producer id, which ends whatever a client before it with the same transactional id has left.

| command | with | the answer has |
|---|---|---|
| begin, commit, abort | nothing | |
| produce | topic, partition, values: within the transaction | |
| read | topic, isolation, until: everything from the start to the first record with that value | values |
| copy | group, source, target, count: begin, read as a member of the group, produce into the target | values |
| end_copy | commit: end that transaction, with the offsets of what was read, and leave the group | committed |
"""

import json
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from tests.clients import go_programs, node_programs
from tests.clients.contract import TIMEOUT

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]


class TransactorProgram(NamedTuple):
    """The start of one; `command` is called in a test and may build it, or skip the test."""

    name: str
    command: Callable[[], Sequence[str]]
    env: Mapping[str, str] | None = None


KAFKAJS = TransactorProgram("kafkajs", lambda: node_programs.command("transactor"), node_programs.environment())
FRANZ_GO = TransactorProgram("franz-go", lambda: go_programs.command("transactor"))


@dataclass(frozen=True)
class TransactorOptions:
    """The configuration of one. Times are in ms."""

    bootstrap: str
    transactional_id: str
    client_id: str = "transactor"
    transaction_timeout_ms: int = 60_000
    session_timeout_ms: int = 30_000


class TransactionError(Exception):
    """The complaints of the client."""


class Transactor:
    """The process of one client."""

    def __init__(self, program: TransactorProgram, options: TransactorOptions) -> None:
        command = program.command()
        self._answers: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it; close() closes it
        self._child = subprocess.Popen(
            [*command, json.dumps(asdict(options))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=None if program.env is None else dict(program.env),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.answer()
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, **fields: Any) -> Mapping[str, Any]:
        """Give it a command. TransactionError if the client cannot do it."""
        self.send(do, **fields)
        return self.answer()

    def send(self, do: str, **fields: Any) -> None:
        """Give it a command whose `answer` is taken later."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self._child.stdin.flush()

    def answer(self) -> Mapping[str, Any]:
        """The answer to the oldest command that has none yet. TransactionError if the client cannot do it."""
        try:
            answer = self._answers.get(timeout=TIMEOUT)
        except queue.Empty:
            raise AssertionError(f"no answer; {self._complaints()}") from None
        assert answer is not None, f"it has ended; {self._complaints()}"
        assert answer["event"] == "done", answer
        if answer["error"] is not None:
            raise TransactionError(answer["error"])
        return answer

    def transaction(self, topic: str, values: Sequence[str], *, partition: int = 0, end: str = "commit") -> None:
        """Produce these records in a transaction of their own."""
        self.ask("begin")
        self.ask("produce", topic=topic, partition=partition, values=values)
        self.ask(end)

    def values(self, topic: str, until: str, isolation: Isolation = "read_committed") -> list[str]:
        """A reader's view of a topic with one partition, up to this value."""
        found: list[str] = self.ask("read", topic=topic, isolation=isolation, until=until)["values"]
        return found

    def kill(self) -> None:
        """End it with SIGKILL: its transaction stays as it is."""
        self._child.kill()
        self._child.wait()
        self._reader.join(TIMEOUT)

    def pause(self) -> None:
        """Stop it with SIGSTOP."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._child.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        self.kill()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()
        self._stderr.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def _complaints(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-4_000:]
