"""Compares our tools with Kafka's on one broker, and the output of Kafka's tools on both brokers."""

import json
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.newest_jars import NewestTools
from tests.command_line_tools.runs import Run, run_kafka_tool, run_our_tool
from tests.kafka.oracle import Oracle
from tests.patience import eventually

_CHANGING: Final = (
    (re.compile(r"(TopicId: |Cluster ID: )\S+"), r"\1#"),
    (re.compile(r"\b\d{13}\b"), "#"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r",file\.delete\.delay\.ms=1000"), ""),  # The tests' Kafka deletes files after a second.
    (re.compile(r" +"), " "),
)
_DURATION: Final = re.compile(r"(\b\d{13} *\t)\d+")
"""The age of a transaction, which `kafka-transactions describe` prints after the start time."""
_ROWS: Final = {"--reset-offsets", "--delete-offsets"}
"""Options for which Kafka 3.9 prints all rows on one line, in any order. Kafka 4 and our tools print a line per row."""
_OTHERWISE_HERE: Final = {
    "--replication-factor 7": "more replicas than brokers are refused only where the configuration asks for it",
    "remove-controller -i 9": "the voters of this broker are fixed, as with kraft.version 0",
    "kafka-features": "a refused update is explained in the words of Kafka 4",
}
"""Parts of calls that this broker answers differently from Kafka 3.9, with the reasons."""
_kafka_runs: Final[dict[tuple[type, Sequence[str], int], Run]] = {}
"""The output of Kafka's tools on the first broker, by the JVM's class, the calls and the index of a call."""


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    """Create a topic and return its name."""
    name = f"t{uuid.uuid4().hex[:8]}"
    Librdkafka(bootstrap).create_topic(name, partitions)
    return name


def write_json(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def until_known(bootstrap: str, words: Sequence[str], tool_run: Run) -> None:
    """Wait until the broker has applied a change. Kafka's controller responds before its brokers apply the change."""
    if tool_run.status or not {"--create", "--delete"} & set(words) or "--topic" not in words:
        return
    topic, exists = words[words.index("--topic") + 1], "--create" in words
    listed = ("kafka-topics", "--bootstrap-server", bootstrap, "--list")
    eventually(lambda: (topic in run_our_tool(*listed).lines) == exists)


class Comparison(NamedTuple):
    """Compares our tools with Kafka's tools in a JVM, on one broker."""

    jvm: Oracle | NewestTools
    bootstrap: str

    def words(self, call: str) -> list[str]:
        """Split a call into words, with {B} replaced by the broker."""
        return call.replace("{B}", self.bootstrap).split()

    def run_ours(self, call: str) -> Run:
        """Run a call of one of our tools. {B} is replaced by the broker."""
        return run_our_tool(*self.words(call))

    def compare(self, *calls: str, name: str | None = None, prepare: Callable[[], None] = lambda: None) -> None:
        """Run both tool families with the same arguments and compare their output.

        {B} is replaced by the broker, and {} by a name. By default each family has its own name, and therefore its own
        topics and groups. With `name`, both families share one name, and `prepare` restores the initial state before
        each run. Lists can show leftovers of other tests, so only their lines with the name are compared. Kafka's
        tools must print the same on both brokers.
        """
        run = uuid.uuid4().hex[:8]
        for index, call in enumerate(calls):
            printed: list[Run] = []
            for family in ("jars", "mine"):
                own_name = name or f"{family}-{run}"
                words = [word.replace("{}", own_name) for word in self.words(call)]
                prepare()
                tool_run = run_kafka_tool(self.jvm, *words) if family == "jars" else run_our_tool(*words)
                until_known(self.bootstrap, words, tool_run)
                printed.append(_normalize(tool_run, words, self.bootstrap, own_name))
            assert printed[1] == printed[0], f"{call}: the jars {printed[0]}, ours {printed[1]}"
            if any(part in call for part in _OTHERWISE_HERE):
                continue
            on_the_other = _kafka_runs.setdefault((type(self.jvm), calls, index), printed[0])
            assert printed[0] == on_the_other, f"{call}: on one broker {on_the_other}, on the other one {printed[0]}"


def _normalize(tool_run: Run, words: Sequence[str], bootstrap: str, own_name: str) -> Run:
    shows_all = not tool_run.status and {"--list", "list"} & set(words)
    lines = [line.replace(own_name, "{}") for line in tool_run.lines if own_name in line or not shows_all]
    lines = [_DURATION.sub(r"\1#", line.replace(bootstrap, "{B}").strip()) for line in lines]
    for pattern, replacement in _CHANGING:
        lines = [pattern.sub(replacement, line) for line in lines]
    in_columns = bootstrap.replace(":", " ")
    lines = [line.replace(in_columns, "{B}") for line in lines]
    if words[0] == "kafka-acls":  # Kafka stores ACLs without an order.
        lines.sort()
    if _ROWS & set(words):
        lines = sorted(cell for line in lines for cell in line.replace(".{}", ". {}").split())
    return Run(tuple(lines), tool_run.status)
