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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from tests.clients import go_programs, node_programs
from tests.clients.line_process import Event, LineProcess

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]


class TransactorProgram(NamedTuple):
    """The start of one; `command` is called in a test and may build it, or skip the test."""

    name: str
    command: Callable[[], Sequence[str]]


KAFKAJS = TransactorProgram("kafkajs", lambda: node_programs.command(node_programs.FOLDER / "transactor.js"))
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


class Transactor(LineProcess):
    """The process of one client."""

    def __init__(self, program: TransactorProgram, options: TransactorOptions) -> None:
        super().__init__([*program.command(), json.dumps(asdict(options))])
        try:
            self.answer()
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, **fields: Any) -> Event:
        """Give it a command. TransactionError if the client cannot do it."""
        self.send({"do": do, **fields})
        return self.answer()

    def answer(self) -> Event:
        """The answer to the oldest command that has none yet. TransactionError if the client cannot do it."""
        answer = super().answer()
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
