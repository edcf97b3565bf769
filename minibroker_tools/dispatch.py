"""Runs a tool by its name: as `minibroker-tools kafka-topics ...`, or through a link named after the tool."""

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

TOOLS: Final[Mapping[str, Sequence[str]]] = {
    "kafka-topics": ("topics", "kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand"),
    "kafka-broker-api-versions": ("broker_api_versions", "kafka.admin.BrokerApiVersionsCommand"),
    "kafka-cluster": ("cluster", "kafka.tools.ClusterTool", "org.apache.kafka.tools.ClusterTool"),
    "kafka-get-offsets": ("get_offsets", "kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell"),
    "kafka-console-producer": (
        "console_producer",
        "kafka.tools.ConsoleProducer",
        "org.apache.kafka.tools.ConsoleProducer",
    ),
    "kafka-console-consumer": (
        "console_consumer",
        "kafka.tools.ConsoleConsumer",
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
    ),
    "kafka-configs": ("configs", "kafka.admin.ConfigCommand"),
    "kafka-storage": ("storage", "kafka.tools.StorageTool"),
    "kafka-consumer-groups": (
        "consumer_groups",
        "kafka.admin.ConsumerGroupCommand",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    ),
    "kafka-delete-records": (
        "delete_records",
        "kafka.admin.DeleteRecordsCommand",
        "org.apache.kafka.tools.DeleteRecordsCommand",
    ),
    "kafka-acls": ("acls", "kafka.admin.AclCommand", "org.apache.kafka.tools.AclCommand"),
    "kafka-log-dirs": ("log_dirs", "kafka.admin.LogDirsCommand", "org.apache.kafka.tools.LogDirsCommand"),
    "kafka-leader-election": (
        "leader_election",
        "kafka.admin.LeaderElectionCommand",
        "org.apache.kafka.tools.LeaderElectionCommand",
    ),
    "kafka-features": ("features", "kafka.admin.FeatureCommand", "org.apache.kafka.tools.FeatureCommand"),
    "kafka-dump-log": ("dump_log", "kafka.tools.DumpLogSegments", "org.apache.kafka.tools.DumpLogSegments"),
    "kafka-verifiable-producer": ("verifiable", "org.apache.kafka.tools.VerifiableProducer"),
    "kafka-verifiable-consumer": ("verifiable", "org.apache.kafka.tools.VerifiableConsumer"),
    "kafka-reassign-partitions": (
        "reassign_partitions",
        "kafka.admin.ReassignPartitionsCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    ),
    "kafka-transactions": (
        "transactions",
        "kafka.tools.TransactionsCommand",
        "org.apache.kafka.tools.TransactionsCommand",
    ),
    "kafka-groups": ("groups", "org.apache.kafka.tools.GroupsCommand"),
    "kafka-metadata-quorum": ("metadata_quorum", "org.apache.kafka.tools.MetadataQuorumCommand"),
    "kafka-client-metrics": ("client_metrics", "org.apache.kafka.tools.ClientMetricsCommand"),
    "kafka-producer-perf-test": (
        "producer_performance",
        "kafka.tools.ProducerPerformance",
        "org.apache.kafka.tools.ProducerPerformance",
    ),
    "kafka-consumer-perf-test": (
        "consumer_performance",
        "kafka.tools.ConsumerPerformance",
        "org.apache.kafka.tools.ConsumerPerformance",
    ),
    "cub": ("confluent",),
    "ub": ("confluent",),
    "dub": ("confluent",),
    "kcat": ("kcat",),
    "kafkacat": ("kcat",),
    "rpk": ("rpk",),
    "kafka-server-start": ("server", "kafka.Kafka"),
    "kafka-server-stop": ("server",),
    "zookeeper-server-start": ("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain"),
    "zookeeper-shell": ("zookeeper", "org.apache.zookeeper.ZooKeeperMain"),
}
"""The module of each tool in `minibroker_tools.commands`, and its Java classes for `kafka-run-class`."""
_TOOLS_BY_CLASS: Final = {name: tool for tool, (_, *classes) in TOOLS.items() for name in classes}
_INTERRUPTED_STATUS: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a tool and return its exit status. The program's own name, or else the first argument, names the tool."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own_name = _plain_name(os.path.basename(sys.argv[0])) if arguments is None else PROGRAM
    if own_name in TOOLS or own_name == "kafka-run-class":
        words.insert(0, own_name)
    try:
        status = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED_STATUS
    except BrokenPipeError:  # Like Java's tools, ignore a pipe that `| head` or `| grep -q` has closed.
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
    """Run a tool of `TOOLS` and return its exit status. A failure is reported on standard error."""
    module = import_module(f"minibroker_tools.commands.{TOOLS[tool][0]}")
    options: Options = module.declare_options(tool)
    try:
        status: int = module.run(options, arguments)
    except UsageError as failure:
        write_error_line(failure.message)
        options.print_usage()
        return failure.status
    except ToolError as failure:
        if failure.message:
            write_error_line(failure.message)
        return failure.status
    except BrokenPipeError:
        raise
    except (OSError, ProtocolError) as error:
        write_error_line(f"{tool}: {error}")
        return 1
    return status


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
