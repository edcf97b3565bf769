"""Runs a tool by its name: `minibroker-tools kafka-topics ...`, or a link named after the tool."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from minibroker_protocol.errors import ProtocolError
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options
from minibroker_tools.output import err, out

PROGRAM: Final = "minibroker-tools"

TOOLS: Final = {
    "kafka-topics": "topics",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-cluster": "cluster",
    "kafka-get-offsets": "get_offsets",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
    "kafka-configs": "configs",
    "kafka-storage": "storage",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-delete-records": "delete_records",
    "kafka-acls": "acls",
    "kafka-log-dirs": "log_dirs",
    "kafka-leader-election": "leader_election",
    "kafka-features": "features",
    "kafka-dump-log": "dump_log",
    "kafka-verifiable-producer": "verifiable",
    "kafka-verifiable-consumer": "verifiable",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-transactions": "transactions",
    "kafka-groups": "groups",
    "kafka-metadata-quorum": "metadata_quorum",
    "kafka-client-metrics": "client_metrics",
    "kafka-producer-perf-test": "producer_performance",
    "kafka-consumer-perf-test": "consumer_performance",
    "cub": "confluent",
    "ub": "confluent",
    "dub": "confluent",
    "kcat": "kcat",
    "kafkacat": "kcat",
    "rpk": "rpk",
    "kafka-server-start": "server",
    "kafka-server-stop": "server",
    "zookeeper-server-start": "zookeeper",
    "zookeeper-shell": "zookeeper",
}
"""The module of each tool in `minibroker_tools.commands`."""

_TOOLS_BY_CLASS: Final = {
    "kafka.admin.ConsumerGroupCommand": "kafka-consumer-groups",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.admin.DeleteRecordsCommand": "kafka-delete-records",
    "org.apache.kafka.tools.DeleteRecordsCommand": "kafka-delete-records",
    "kafka.admin.AclCommand": "kafka-acls",
    "org.apache.kafka.tools.AclCommand": "kafka-acls",
    "kafka.admin.LogDirsCommand": "kafka-log-dirs",
    "org.apache.kafka.tools.LogDirsCommand": "kafka-log-dirs",
    "kafka.admin.LeaderElectionCommand": "kafka-leader-election",
    "org.apache.kafka.tools.LeaderElectionCommand": "kafka-leader-election",
    "kafka.admin.FeatureCommand": "kafka-features",
    "org.apache.kafka.tools.FeatureCommand": "kafka-features",
    "kafka.admin.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "kafka.tools.TransactionsCommand": "kafka-transactions",
    "org.apache.kafka.tools.TransactionsCommand": "kafka-transactions",
    "org.apache.kafka.tools.GroupsCommand": "kafka-groups",
    "kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "org.apache.kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "org.apache.kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "org.apache.kafka.tools.ClientMetricsCommand": "kafka-client-metrics",
    "org.apache.kafka.tools.MetadataQuorumCommand": "kafka-metadata-quorum",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "org.apache.kafka.tools.DumpLogSegments": "kafka-dump-log",
    "org.apache.kafka.tools.VerifiableProducer": "kafka-verifiable-producer",
    "org.apache.kafka.tools.VerifiableConsumer": "kafka-verifiable-consumer",
    "kafka.Kafka": "kafka-server-start",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain": "zookeeper-server-start",
    "org.apache.zookeeper.ZooKeeperMain": "zookeeper-shell",
    "kafka.tools.StorageTool": "kafka-storage",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "org.apache.kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "kafka-console-consumer",
    "kafka.admin.TopicCommand": "kafka-topics",
    "org.apache.kafka.tools.TopicCommand": "kafka-topics",
    "kafka.admin.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "org.apache.kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "kafka.tools.ClusterTool": "kafka-cluster",
    "org.apache.kafka.tools.ClusterTool": "kafka-cluster",
}
"""The tool for each Java class that `kafka-run-class` accepts."""
_INTERRUPTED_STATUS: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool named by the program's own name or by the first argument, and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own_name = _plain_name(os.path.basename(sys.argv[0])) if arguments is None else PROGRAM
    if own_name in TOOLS or own_name == "kafka-run-class":
        words.insert(0, own_name)
    try:
        status = _run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED_STATUS
    except BrokenPipeError:  # `| head` and `| grep -q` close the pipe. Java's tools ignore that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _run(words: list[str]) -> int:
    if words and _plain_name(words[0]) == "kafka-run-class":
        return _run_class(words[1:])
    if not words or words[0] in {"--help", "-h"}:
        out(f"usage: {PROGRAM} TOOL [OPTION ...]\n\nTools: {', '.join(sorted(TOOLS))}, kafka-run-class")
        return 0 if words else 1
    tool = _plain_name(words[0])
    if tool not in TOOLS:
        err(f"{PROGRAM}: {words[0]} is not one of the tools {', '.join(sorted(TOOLS))}, kafka-run-class")
        return 1
    return run_tool(tool, words[1:])


def run_tool(tool: str, arguments: Sequence[str]) -> int:
    """Run a tool of `TOOLS`, report a failure on standard error, and return the exit status."""
    module = import_module(f"minibroker_tools.commands.{TOOLS[tool]}")
    options: Options = module.declare_options(tool)
    try:
        status: int = module.run(options, arguments)
    except UsageError as failure:
        err(failure.message)
        options.print_usage()
        return failure.status
    except ToolError as failure:
        if failure.message:
            err(failure.message)
        return failure.status
    except BrokenPipeError:
        raise
    except (OSError, ProtocolError) as error:
        err(f"{tool}: {error}")
        return 1
    return status


def _run_class(words: Sequence[str]) -> int:
    if not words:
        err("USAGE: kafka-run-class classname [opts]")
        return 1
    if words[0] not in _TOOLS_BY_CLASS:
        classes = ", ".join(sorted(_TOOLS_BY_CLASS))
        err(f"Error: Could not find or load main class {words[0]}: kafka-run-class knows {classes}")
        return 1
    return run_tool(_TOOLS_BY_CLASS[words[0]], words[1:])


def _plain_name(name: str) -> str:
    """Return a tool's name without its directory and `.sh` suffix."""
    return os.path.basename(name).removesuffix(".sh")
