"""Kafka's command line tools, run on a broker: what they print, without what differs from run to run."""

import json
import re
import time
from collections.abc import Callable, Sequence
from difflib import unified_diff
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.kafka.newer_keys import NEWER_OF_TOPICS
from tests.kafka.oracle import Oracle
from tests.patience import PATIENCE_S

TOOLS: Final = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}

_ABOUT_EVERYTHING: Final = {"--list", "list", "--all-groups", "find-hanging", "kafka-console-consumer"}
"""Words of runs that may also print what other tests have left."""
_VARIABLE_COLUMNS: Final = {
    "ProducerId",
    "LastTimestamp",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "Duration(min)",
    "LogEndOffset",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
}
_NEWER: Final = "|".join(map(re.escape, sorted(NEWER_OF_TOPICS)))
_NOISE: Final = re.compile(rf"log4j:|\| (at |\.\.\. \d+ more)|({_NEWER})=")
"""Of logging, the lines of stack traces, and the key of topics that Kafka 3.9 does not have."""
_BEFORE_EXIT: Final = "IllegalStateException: "
"""The oracle puts it before all that a tool has printed which ends with an exit."""
_KEPT: Final = ("GROUP", "TransactionalId", "Topic", "Error: ")
"""Starts of lines that are compared although they do not name the test's topics and groups."""
_DISTURBED: Final = "Error: Executing consumer group command failed due to"
_VARIABLE_TEXTS: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\b\d{13}\b"), "TIME"),
    (re.compile(r'"producerId": \d+'), '"producerId": ID'),
    (re.compile(r"\bTopicId: \S+"), "TopicId: ID"),
    (re.compile(r"\bCluster ?I[dD]: +\S+"), "ClusterId: ID"),
    (re.compile(r"\b(HighWatermark|Epoch): +\d+"), r"\1: N"),
    (re.compile(r"\bCONTROLLER://[\w.:]+"), "CONTROLLER"),
    (re.compile(r'"logDir":"[^"]*"'), '"logDir":DIRECTORY'),
    (re.compile(r'(?<="partitionIds": )\[\d+\](?=, "topic": "__consumer_offsets")'), "[N]"),  # it may have any number
    (re.compile(r" +"), " "),
)


class Command(NamedTuple):
    """One run of a tool."""

    words: tuple[str, ...]
    #: Its lines, sorted: Kafka keeps members, groups and partitions in no order.
    lines: tuple[str, ...]

    def text(self) -> str:
        """All of them."""
        return "\n".join(self.lines)


class Transcript:
    """The runs of tools on one broker, for one test whose names all have `prefix` in them.

    Lines about anything else are left out, since the broker may serve other tests, too.
    """

    def __init__(self, oracle: Oracle, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.commands: list[Command] = []
        self._oracle = oracle

    def run(self, tool: str, *arguments: str) -> Command:
        """Run a tool and note what it has printed, be it a failure."""
        self.commands.append(self.ask(tool, *arguments))
        return self.commands[-1]

    def ask(self, tool: str, *arguments: str) -> Command:
        """Run a tool that is not to be compared. It is told of the broker first, unless some argument has {broker}."""
        addressed = [argument.replace("{broker}", self.bootstrap) for argument in arguments]
        if tuple(addressed) == arguments:
            addressed = ["--bootstrap-server", self.bootstrap, *arguments]
        text = self._attempt(tool, addressed)
        words = (tool, *("N" if before == "--max-messages" else word for before, word in pairwise(("", *arguments))))
        lines = _without_what_varies(text.replace(self.bootstrap, "BROKER"))
        if _ABOUT_EVERYTHING & set(words):
            lines = list(dict.fromkeys(line for line in lines if self.prefix in line or line.startswith(_KEPT)))
        return Command(words, tuple(sorted(lines)))

    def _attempt(self, tool: str, arguments: Sequence[str]) -> str:
        """The text that a tool prints.

        A tool that looks at all groups fails as a whole if one of them, which may be of another test, changes while
        it looks: a topic is deleted, a coordinator still reads. Such a run is repeated.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            text = self._oracle.attempt(TOOLS[tool], *arguments).removeprefix(_BEFORE_EXIT)
            is_disturbed = "--all-groups" in arguments and _DISTURBED in text and self.prefix not in text
            if not is_disturbed or time.monotonic() > deadline:
                return text

    def run_all(self, tool: str, *calls: str) -> None:
        """Run a tool several times; a call is its options as on a command line, where {} is the prefix."""
        for call in calls:
            self.run(tool, *call.replace("{}", self.prefix).split())

    def find(self, *words: str) -> Command:
        """The last command with these words. AssertionError if there is none."""
        found = [command for command in self.commands if set(words) <= set(command.words)]
        assert found, words
        return found[-1]


def _without_what_varies(text: str) -> list[str]:
    """The lines, without ids and times and what depends on their width."""
    lines: list[str] = []
    header: list[str] = []
    for line in text.replace("}{", "}\n{").splitlines():  # the formatters of internal topics end no lines
        cells = [cell.strip() for cell in line.split("\t")]  # kafka-transactions puts tabs between columns
        if len(cells) != len(header):
            header = cells if len(cells) > 1 else []
        else:
            cells = ["-" if name in _VARIABLE_COLUMNS else cell for name, cell in zip(header, cells, strict=True)]
        stripped = " | ".join(cells).strip()
        if stripped.startswith('{"key"'):
            stripped = json.dumps(_in_order(json.loads(stripped)), sort_keys=True)
        for pattern, name in _VARIABLE_TEXTS:
            stripped = pattern.sub(name, stripped)
        if stripped and not _NOISE.match(stripped):
            lines.append(stripped)
    return lines


def _in_order(value: Any) -> Any:
    """JSON whose lists, which Kafka keeps in no order, are sorted."""
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    return sorted(map(_in_order, value), key=json.dumps) if isinstance(value, list) else value


def both(oracle: Oracle, ours: str, kafka: str, prefix: str, scenario: Callable[[Transcript], None]) -> Transcript:
    """The transcript of a scenario that prints the same on our broker and on Kafka. AssertionError if it does not."""
    transcripts = [Transcript(oracle, bootstrap, prefix) for bootstrap in (ours, kafka)]
    for transcript in transcripts:
        scenario(transcript)
    on_ours, on_kafka = transcripts
    assert [command.words for command in on_ours.commands] == [command.words for command in on_kafka.commands]
    for here, there in zip(on_ours.commands, on_kafka.commands, strict=True):
        difference = "\n".join(unified_diff(there.lines, here.lines, "Kafka", "ours", lineterm=""))
        assert not difference, f"{' '.join(here.words)}\n{difference}"
    return on_kafka
