"""cub, ub and dub, the programs of Confluent's images that wait until something is ready."""

import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_protocol.lazy_imports import lazy
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import err, out

with lazy:
    from urllib import error as urllib_error
    from urllib import request

    from minibroker_tools.commands import template

_PAUSE_S: Final = 0.2
_HTTP_OK: Final = range(200, 300)


def options(tool: str) -> Options:
    """The options of cub, ub and dub."""
    known = Options(
        tool,
        "Wait until something is ready: kafka-ready EXPECTED TIMEOUT, zk-ready SERVERS TIMEOUT, "
        "sr-ready|kr-ready|connect-ready|ksql-server-ready|control-center-ready HOST PORT TIMEOUT, "
        "wait HOST PORT TIMEOUT, listeners ADVERTISED, ensure VARIABLE, ensure-atleast-one VARIABLE ..., "
        "path PATH writable|readable|executable|exists, path-wait PATH TIMEOUT, http-ready URL TIMEOUT, "
        "template SOURCE TARGET.",
    )
    known.value("bootstrap-server", "bootstrap_broker_list", "b", help="the brokers to connect to", metavar="SERVERS")
    known.value("config", "c", help="a file with properties of the client", metavar="FILE")
    known.value("zookeeper", "z", help="accepted for old scripts", metavar="SERVERS")
    known.value("security-protocol", "s", help="the security protocol of the client", metavar="PROTOCOL")
    known.flag("secure", help="https in place of http")
    known.flag("ignore_cert", help="accepted for old scripts")
    known.value("username", help="accepted for old scripts")
    known.value("password", help="accepted for old scripts")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Run one of the commands."""
    values = known.parse(arguments)
    if not values.words:
        raise UsageError("a command is required, such as kafka-ready")
    command, words = values.words[0], values.words[1:]
    if command == "kafka-ready":
        return _kafka_ready(values, words)
    if command == "listeners":
        _need(command, words, 1)
        out(_listeners(words[0]))
        return 0
    if command in {"zk-ready", "path-wait", "http-ready", "template"}:
        _need(command, words, 2)
        return _of_two(command, words[0], words[1])
    if command in {"wait", "sr-ready", "kr-ready", "connect-ready", "ksql-server-ready", "control-center-ready"}:
        _need(command, words, 3)
        place, timeout = f"{words[0]}:{words[1]}", _seconds(words[2])
        scheme = "https" if values.has("secure") else "http"
        return (
            _port_open(command, place, timeout) if command == "wait" else _http_ready(f"{scheme}://{place}/", timeout)
        )
    return _local(command, words)


def _of_two(command: str, first: str, second: str) -> int:
    """Run a command that takes two arguments."""
    if command == "template":
        template.fill(first, second)
        return 0
    timeout = _seconds(second)
    if command == "http-ready":
        return _http_ready(first, timeout)
    if command == "path-wait":
        return _path_there(command, first, timeout)
    return _port_open(command, first.partition("/")[0], timeout)


def _need(command: str, words: Sequence[str], count: int) -> None:
    if len(words) < count:
        raise UsageError(f"{command} takes {count} arguments, {len(words)} were given")


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"the timeout {text!r} is not a number of seconds") from None


def _kafka_ready(values: Values, words: Sequence[str]) -> int:
    """Wait until as many brokers as expected have registered; the timeout is in seconds."""
    _need("kafka-ready", words, 2)
    expected, timeout = int(_seconds(words[0])), _seconds(words[1])
    servers = values.text("bootstrap-server")
    if servers is None:
        hint = ": ZooKeeper is not served here, name the broker with -b" * values.has("zookeeper")
        raise UsageError(f"kafka-ready needs -b SERVERS{hint}")
    properties = load_properties(values.text("config"))
    if values.has("security-protocol"):
        properties["security.protocol"] = values.text("security-protocol") or ""
    deadline = time.monotonic() + timeout
    settings = Settings(servers, properties)
    found = 0
    try:
        with Cluster(settings, timeout=timeout) as cluster:
            while True:
                found = len(cluster.metadata([]).brokers)
                if found >= expected:
                    return 0
                if time.monotonic() + _PAUSE_S > deadline:
                    break
                time.sleep(_PAUSE_S)
    except ToolError as failure:
        err(f"kafka-ready: {failure.message}")
        return 1
    err(f"kafka-ready: expected {expected} brokers but found only {found} at {servers} within {timeout:g} s")
    return 1


def _path_there(command: str, path: str, timeout: float) -> int:
    """Wait until a file or folder exists."""
    deadline = time.monotonic() + timeout
    while not os.path.exists(path):
        if time.monotonic() + _PAUSE_S > deadline:
            err(f"{command}: {path} was not there within {timeout:g} s")
            return 1
        time.sleep(_PAUSE_S)
    return 0


def _port_open(command: str, servers: str, timeout: float) -> int:
    """Wait until the port of one of the servers accepts a connection."""
    deadline = time.monotonic() + timeout
    places = Settings(servers).addresses
    while True:
        for place in places:
            try:
                socket.create_connection(place, timeout=max(deadline - time.monotonic(), 0.01)).close()
            except OSError:
                continue
            return 0
        if time.monotonic() + _PAUSE_S > deadline:
            err(f"{command}: {servers} accepted no connection within {timeout:g} s")
            return 1
        time.sleep(_PAUSE_S)


def _http_ready(url: str, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    while True:
        try:
            with request.urlopen(url, timeout=max(deadline - time.monotonic(), 0.1)) as answer:  # noqa: S310 - http and https only
                if answer.status in _HTTP_OK:
                    return 0
                reason = f"status {answer.status}"
        except (urllib_error.URLError, OSError, ValueError) as error:
            reason = str(error)
        if time.monotonic() + _PAUSE_S > deadline:
            err(f"{url} was not ready within {timeout:g} s: {reason}")
            return 1
        time.sleep(_PAUSE_S)


def _listeners(advertised: str) -> str:
    """The listeners to bind for advertised ones: the same names and ports on all interfaces."""
    found: list[str] = []
    for entry in advertised.split(","):
        name, scheme, address = entry.strip().partition("://")
        if not scheme or ":" not in address:
            raise ToolError(f"listeners: {entry!r} is not NAME://HOST:PORT")
        found.append(f"{name}://0.0.0.0:{address.rpartition(':')[2]}")
    return ",".join(found)


def _local(command: str, words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """The commands that look at variables and files only."""
    if command in {"ensure", "ensure-atleast-one"} and words:
        if any(environment.get(name) for name in words):
            return 0
        err(f"{' or '.join(words)} is required." if len(words) == 1 else f"One of {', '.join(words)} is required.")
        return 1
    if command == "path" and words:
        kind = words[1] if len(words) > 1 else "exists"
        mode = {"writable": os.W_OK, "readable": os.R_OK, "executable": os.X_OK}.get(kind, os.F_OK)
        if os.access(words[0], mode):
            return 0
        err(f"path {words[0]} is not {kind if kind != 'exists' else 'there'}.")
        return 1
    raise UsageError(f"{command} is not one of the commands of this tool")
