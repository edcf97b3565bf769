"""Code shared by several tools: clusters given on the command line, topic filters, and JSON files of partitions."""

import contextlib
import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from types import FrameType
from typing import Any, Final, TypeVar, cast

from minibroker_protocol.lazy_imports import lazy
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ApiError, ToolError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_error_line

with lazy:
    from minibroker_tools.client import zookeeper as zookeeper_tree

NameT = TypeVar("NameT", int, str)

LOCAL_BROKER: Final = "MINIBROKER_TOOLS_BOOTSTRAP"
"""The environment variable for the address of the broker to use instead of `--zookeeper`."""
_LOCAL_ADDRESS: Final = "localhost:9092"


def add_connection(options: Options, *, controller: bool = False) -> None:
    """Declare the options for the cluster's address and the client properties."""
    options.value("bootstrap-server", help="the brokers to connect to, HOST:PORT[,HOST:PORT]", metavar="SERVERS")
    if controller:
        options.value("bootstrap-controller", help="the controllers to connect to", metavar="CONTROLLERS")
    options.value("command-config", help="a file with client properties", metavar="FILE")


def cluster_of(values: Values, *, timeout: float | None = None) -> Cluster:
    """Return the cluster given by --bootstrap-server, --bootstrap-controller or --zookeeper.

    Args:
        values: The options on the command line.
        timeout: A timeout in seconds to use instead of `default.api.timeout.ms`.
    """
    names = ("bootstrap-server", "bootstrap-controller", "zookeeper")
    name = next((name for name in names if values.accepts(name) and values.has(name)), "bootstrap-server")
    servers, properties = values.text(name) or "", load_properties(values.text("command-config"))
    settings = local_broker(servers, properties) if name == "zookeeper" else Settings(servers, properties)
    return Cluster(settings, timeout=timeout)


def local_broker(zookeeper: str, properties: Mapping[str, str] | None = None) -> Settings:
    """Return the settings for the brokers to use instead of ZooKeeper, and print a warning with their address.

    Brokers that are registered in ZooKeeper come first, then a broker on this machine.
    """
    if LOCAL_BROKER not in os.environ:
        with zookeeper_tree.connect(zookeeper) as tree:
            protocol = (properties or {}).get("security.protocol", "PLAINTEXT").upper()
            registered = [] if tree is None else tree.bootstrap_servers(protocol)
        if registered:
            write_error_line(
                f"Warning: the brokers that are registered in ZooKeeper are asked: {','.join(registered)}."
            )
            return Settings(",".join(registered), properties)
    broker = os.environ.get(LOCAL_BROKER) or _LOCAL_ADDRESS
    write_error_line(
        f"Warning: no ZooKeeper is asked at {zookeeper}. The broker at {broker} takes its place ({LOCAL_BROKER})."
    )
    return Settings(broker, properties)


def topic_filter(pattern: str | None) -> Callable[[str], bool]:
    """Return a predicate for topic names. Without a pattern it accepts all names.

    The pattern has the format of Kafka's `IncludeList`: regular expressions separated by commas.
    """
    text = ".*" if pattern is None else pattern.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise ToolError(f"{text} is an invalid regex. {error}") from None
    return lambda name: compiled.fullmatch(name) is not None


def java_error(error: ToolError) -> str:
    """Return a failure's text as Java prints it in the message of a wrapping exception."""
    return error.described if isinstance(error, ApiError) else error.message


def read_json(path: str) -> Any:
    """Return the parsed content of a JSON file.

    Raises:
        ToolError: The file cannot be read or is not JSON.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"Unable to read file {path}") from None
    try:
        return json.loads(text)
    except ValueError:
        raise ToolError("The input string is not a valid JSON") from None


def partition_entries(path: str, content: Any, missing: str) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """Return the entries in the content's `partitions` list, each with its topic-partition.

    Raises:
        ToolError: The list is missing (`missing` is the message), or an entry has no topic or partition.
    """
    members = members_of_object(content)
    if not isinstance(members.get("partitions"), list):
        raise ToolError(missing)
    elements: list[Any] = members["partitions"]
    entries: list[tuple[TopicPartition, dict[str, Any]]] = []
    for element in elements:
        entry = members_of_object(element)
        topic, partition = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int):
            raise ToolError(f"{path}: {json.dumps(element)} has no topic and number of a partition")
        entries.append(((topic, partition), entry))
    return entries


def members_of_object(content: Any) -> dict[str, Any]:
    """Return the members of a JSON object, or an empty dictionary for any other value."""
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def find_duplicates(values: Iterable[NameT]) -> list[NameT]:
    """Return the values that occur more than once, in sorted order."""
    return sorted(value for value, count in Counter(values).items() if count > 1)


def partition_name(partition: TopicPartition) -> str:
    """Return a partition in Kafka's notation, such as orders-0."""
    return f"{partition[0]}-{partition[1]}"


def java_text(value: str | None) -> str:
    """Return a string as Java prints it: None becomes `null`."""
    return "null" if value is None else value


class StoppedError(Exception):
    """The error raised when SIGTERM or SIGINT arrives."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


@contextlib.contextmanager
def raise_on_signals(*signals: signal.Signals, error: Callable[[int], BaseException] = StoppedError) -> Generator[None]:
    """Raise an error in the block when one of these signals arrives. Outside the main thread, do nothing."""

    def stop(signum: int, _frame: FrameType | None) -> None:
        raise error(signum)

    is_main = threading.current_thread() is threading.main_thread()
    previous_handlers = {signum: signal.signal(signum, stop) for signum in signals} if is_main else {}
    try:
        yield
    finally:
        for signum, handler in previous_handlers.items():
            signal.signal(signum, handler)


def raise_interrupt_on_sigterm() -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    return raise_on_signals(signal.SIGTERM, error=KeyboardInterrupt)
