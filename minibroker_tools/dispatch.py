"""Runs a tool by name: with `minibroker-tools kafka-topics ...`, or through a link named after the tool."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from minibroker_protocol.errors import ProtocolError
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options
from minibroker_tools.output import write_error_line, write_line

PROGRAM: Final = "minibroker-tools"

_NEWER: Final = "org.apache.kafka.tools"
"""The package that holds the tools' newer Java classes. The older classes are in `kafka.admin` and `kafka.tools`."""
_CONFLUENT: Final = {
    f"kafka-{name}-console-{role}": (option, f"io.confluent.kafka.formatter.{kind}Message{suffix}")
    for name, kind in (("avro", "Avro"), ("json-schema", "json.JsonSchema"), ("protobuf", "protobuf.Protobuf"))
    for role, option, suffix in (("consumer", "--formatter", "Formatter"), ("producer", "--line-reader", "Reader"))
}
"""Confluent's console tools, with the option and the class that they add to Kafka's."""
TOOLS: Final[Mapping[str, Sequence[str]]] = {
    "kafka-topics": ("kafka.admin.TopicCommand", f"{_NEWER}.TopicCommand"),
    "kafka-broker-api-versions": ("kafka.admin.BrokerApiVersionsCommand",),
    "kafka-cluster": ("kafka.tools.ClusterTool", f"{_NEWER}.ClusterTool"),
    "kafka-get-offsets": ("kafka.tools.GetOffsetShell", f"{_NEWER}.GetOffsetShell"),
    "kafka-console-producer": ("kafka.tools.ConsoleProducer", f"{_NEWER}.ConsoleProducer"),
    "kafka-console-consumer": ("kafka.tools.ConsoleConsumer", f"{_NEWER}.consumer.ConsoleConsumer"),
    "kafka-configs": ("kafka.admin.ConfigCommand",),
    "kafka-storage": ("kafka.tools.StorageTool",),
    "kafka-consumer-groups": ("kafka.admin.ConsumerGroupCommand", f"{_NEWER}.consumer.group.ConsumerGroupCommand"),
    "kafka-delete-records": ("kafka.admin.DeleteRecordsCommand", f"{_NEWER}.DeleteRecordsCommand"),
    "kafka-acls": ("kafka.admin.AclCommand", f"{_NEWER}.AclCommand"),
    "kafka-log-dirs": ("kafka.admin.LogDirsCommand", f"{_NEWER}.LogDirsCommand"),
    "kafka-leader-election": ("kafka.admin.LeaderElectionCommand", f"{_NEWER}.LeaderElectionCommand"),
    "kafka-features": ("kafka.admin.FeatureCommand", f"{_NEWER}.FeatureCommand"),
    "kafka-dump-log": ("kafka.tools.DumpLogSegments", f"{_NEWER}.DumpLogSegments"),
    "kafka-verifiable-producer": (f"{_NEWER}.VerifiableProducer",),
    "kafka-verifiable-consumer": (f"{_NEWER}.VerifiableConsumer",),
    "kafka-reassign-partitions": (
        "kafka.admin.ReassignPartitionsCommand",
        f"{_NEWER}.reassign.ReassignPartitionsCommand",
    ),
    "kafka-transactions": ("kafka.tools.TransactionsCommand", f"{_NEWER}.TransactionsCommand"),
    "kafka-groups": (f"{_NEWER}.GroupsCommand",),
    "kafka-metadata-quorum": (f"{_NEWER}.MetadataQuorumCommand",),
    "kafka-client-metrics": (f"{_NEWER}.ClientMetricsCommand",),
    "kafka-producer-perf-test": ("kafka.tools.ProducerPerformance", f"{_NEWER}.ProducerPerformance"),
    "kafka-consumer-perf-test": ("kafka.tools.ConsumerPerformance", f"{_NEWER}.ConsumerPerformance"),
    **dict.fromkeys(("cub", "ub", "dub", "kcat", "kafkacat", "rpk", "kafka-server-stop"), ()),
    "kafka-server-start": ("kafka.Kafka",),
    "zookeeper-server-start": ("org.apache.zookeeper.server.quorum.QuorumPeerMain",),
    "zookeeper-shell": ("org.apache.zookeeper.ZooKeeperMain",),
    **dict.fromkeys(_CONFLUENT, ()),
}
"""The Java classes of each tool, for `kafka-run-class`."""
_MODULES: Final = {
    "kafka-verifiable-producer": "verifiable",
    "kafka-verifiable-consumer": "verifiable",
    "kafka-producer-perf-test": "producer_performance",
    "kafka-consumer-perf-test": "consumer_performance",
    "kafkacat": "kcat",
    **dict.fromkeys(("cub", "ub", "dub"), "confluent"),
    **dict.fromkeys(("kafka-server-start", "kafka-server-stop"), "server"),
    **dict.fromkeys(("zookeeper-server-start", "zookeeper-shell"), "zookeeper"),
    **{tool: f"console_{tool.rpartition('-')[2]}" for tool in _CONFLUENT},
}
"""The modules in `minibroker_tools.commands` that are not named after their tools."""
_TOOLS_BY_CLASS: Final = {name: tool for tool, classes in TOOLS.items() for name in classes}
_INTERRUPTED_STATUS: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a tool and return its exit status.

    If the program is called by a tool's name, that tool runs. Otherwise the first argument names the tool.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    own_name = _plain_name(sys.argv[0]) if arguments is None else PROGRAM
    if own_name in TOOLS or own_name == "kafka-run-class":
        words.insert(0, own_name)
    try:
        status = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED_STATUS
    except BrokenPipeError:  # As in Java's tools, a pipe closed by `| head` or `| grep -q` is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _run(words: list[str]) -> int:
    if words and _plain_name(words[0]) == "kafka-run-class":
        return _run_class(words[1:])
    if not words or words[0] in {"--help", "-h"}:
        write_line(f"usage: {PROGRAM} TOOL [OPTION ...]\n\nTools: {', '.join(sorted(TOOLS))}, kafka-run-class")
        return 0 if words else 1
    tool = _plain_name(words[0])
    if tool not in TOOLS:
        write_error_line(f"{PROGRAM}: {words[0]} is not one of the tools {', '.join(sorted(TOOLS))}, kafka-run-class")
        return 1
    return run_tool(tool, words[1:])


def run_tool(tool: str, arguments: Sequence[str]) -> int:
    """Run a tool from `TOOLS` and return its exit status. Failures are reported on standard error."""
    name = _MODULES.get(tool) or tool.removeprefix("kafka-").replace("-", "_")
    module = import_module(f"minibroker_tools.commands.{name}")
    options: Options = module.declare_options(tool)
    try:
        status: int = module.run(options, [*_confluent_options(tool, arguments), *arguments])
    except ToolError as failure:
        if failure.message:
            write_error_line(failure.message)
        if isinstance(failure, UsageError):
            options.print_usage()
        return failure.status
    except BrokenPipeError:
        raise
    except (OSError, ProtocolError) as error:
        write_error_line(f"{tool}: {error}")
        return 1
    return status


def _confluent_options(tool: str, arguments: Sequence[str]) -> list[str]:
    """Return the options that Confluent's script of this name adds to those of Kafka's console tool."""
    if tool not in _CONFLUENT or not arguments:
        return []
    option, class_name = _CONFLUENT[tool]
    words = [] if option in arguments else [option, class_name]
    return [*words, "--property", "schema.registry.url=http://localhost:8081"]


def _run_class(words: Sequence[str]) -> int:
    if not words:
        write_error_line("USAGE: kafka-run-class classname [opts]")
        return 1
    if words[0] not in _TOOLS_BY_CLASS:
        classes = ", ".join(sorted(_TOOLS_BY_CLASS))
        write_error_line(f"Error: Could not find or load main class {words[0]}: kafka-run-class knows {classes}")
        return 1
    return run_tool(_TOOLS_BY_CLASS[words[0]], words[1:])


def _plain_name(name: str) -> str:
    """Return a tool's name without its directory and `.sh` suffix."""
    return os.path.basename(name).removesuffix(".sh")
