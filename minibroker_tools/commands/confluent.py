"""cub, ub and dub: the programs in Confluent's images that wait for services and render templates."""

import os
import re
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib import request

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_error_line, write_line

_PAUSE_S: Final = 0.2
_HTTP_OK: Final = range(200, 300)
_SINGLE_UNDERSCORE = re.compile("(?<=[^_])_(?=[^_])")


def declare_options(tool: str) -> Options:
    """Declare the options of cub, ub and dub."""
    options = Options(
        tool,
        "Wait until something is ready: kafka-ready EXPECTED TIMEOUT, zk-ready SERVERS TIMEOUT, "
        "sr-ready|kr-ready|connect-ready|ksql-server-ready|control-center-ready HOST PORT TIMEOUT, "
        "wait HOST PORT TIMEOUT, listeners ADVERTISED, ensure VARIABLE, ensure-atleast-one VARIABLE ..., "
        "path PATH writable|readable|executable|exists, path-wait PATH TIMEOUT, http-ready URL TIMEOUT, "
        "template SOURCE TARGET.",
    )
    options.value("bootstrap-server", "bootstrap_broker_list", "b", help="the brokers to connect to", metavar="SERVERS")
    options.value("config", "c", help="a file with client properties", metavar="FILE")
    options.value("zookeeper", "z", help="accepted for old scripts", metavar="SERVERS")
    options.value("security-protocol", "s", help="the client's security protocol", metavar="PROTOCOL")
    options.flag("secure", help="use https instead of http")
    options.flag("ignore_cert", help="accepted for old scripts")
    options.value("username", help="accepted for old scripts")
    options.value("password", help="accepted for old scripts")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    values = options.parse(arguments)
    if not values.words:
        raise UsageError("a command is required, such as kafka-ready")
    command, words = values.words[0], values.words[1:]
    if command == "kafka-ready":
        return _wait_for_brokers(values, words)
    if command == "listeners":
        _require_arguments(command, words, 1)
        write_line(_bind_listeners(words[0]))
        return 0
    if command in {"zk-ready", "path-wait", "http-ready", "template"}:
        _require_arguments(command, words, 2)
        return _run_with_two_arguments(command, words[0], words[1])
    if command in {"wait", "sr-ready", "kr-ready", "connect-ready", "ksql-server-ready", "control-center-ready"}:
        _require_arguments(command, words, 3)
        address, timeout = f"{words[0]}:{words[1]}", _parse_seconds(words[2])
        if command == "wait":
            return _wait_for_port(command, address, timeout)
        return _wait_for_http(f"{'https' if values.has('secure') else 'http'}://{address}/", timeout)
    return _check_locally(command, words)


def _run_with_two_arguments(command: str, first: str, second: str) -> int:
    """Run a command with two arguments."""
    if command == "template":
        fill_template(first, second)
        return 0
    timeout = _parse_seconds(second)
    if command == "http-ready":
        return _wait_for_http(first, timeout)
    if command == "path-wait":
        return _wait_for_path(command, first, timeout)
    return _wait_for_port(command, first.partition("/")[0], timeout)


def _require_arguments(command: str, words: Sequence[str], count: int) -> None:
    if len(words) < count:
        raise UsageError(f"{command} takes {count} arguments, {len(words)} were given")


def _parse_seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"the timeout {text!r} is not a number of seconds") from None


def _wait_for_brokers(values: Values, words: Sequence[str]) -> int:
    """Wait until the expected number of brokers is registered. The words are this number and a timeout in seconds."""
    _require_arguments("kafka-ready", words, 2)
    expected, timeout = int(_parse_seconds(words[0])), _parse_seconds(words[1])
    servers = values.text("bootstrap-server")
    if servers is None:
        hint = ": ZooKeeper is not served here, name the broker with -b" * values.has("zookeeper")
        raise UsageError(f"kafka-ready needs -b SERVERS{hint}")
    properties = load_properties(values.text("config"))
    if values.has("security-protocol"):
        properties["security.protocol"] = values.text("security-protocol") or ""
    try:
        with Cluster(Settings(servers, properties), timeout=timeout) as cluster:

            def check_brokers(_deadline: float) -> str | None:
                count = len(cluster.metadata([]).brokers)
                shortage = f"expected {expected} brokers but found only {count} at {servers} within {timeout:g} s"
                return None if count >= expected else f"kafka-ready: {shortage}"

            return _wait_until_ready(timeout, check_brokers)
    except ToolError as failure:
        write_error_line(f"kafka-ready: {failure.message}")
        return 1


def _wait_until_ready(timeout: float, problem_of: Callable[[float], str | None]) -> int:
    """Call `problem_of` with the deadline until it returns None.

    Returns:
        The exit status: 0 on success, or 1 after a timeout. In that case the last problem is printed.
    """
    deadline = time.monotonic() + timeout
    while True:
        problem = problem_of(deadline)
        if problem is None:
            return 0
        if time.monotonic() + _PAUSE_S > deadline:
            write_error_line(problem)
            return 1
        time.sleep(_PAUSE_S)


def _wait_for_path(command: str, path: str, timeout: float) -> int:
    """Wait until a file or directory exists."""
    problem = f"{command}: {path} was not there within {timeout:g} s"
    return _wait_until_ready(timeout, lambda _deadline: None if os.path.exists(path) else problem)


def _wait_for_port(command: str, servers: str, timeout: float) -> int:
    """Wait until one of the servers accepts a connection."""
    addresses = Settings(servers).addresses

    def check_ports(deadline: float) -> str | None:
        for address in addresses:
            remaining_s = max(deadline - time.monotonic(), 0.01)
            with suppress(OSError), socket.create_connection(address, timeout=remaining_s):
                return None
        return f"{command}: {servers} accepted no connection within {timeout:g} s"

    return _wait_until_ready(timeout, check_ports)


def _wait_for_http(url: str, timeout: float) -> int:
    def check_readiness(deadline: float) -> str | None:
        try:
            with request.urlopen(url, timeout=max(deadline - time.monotonic(), 0.1)) as answer:  # noqa: S310 - http and https only
                if answer.status in _HTTP_OK:
                    return None
                reason = f"status {answer.status}"
        except (OSError, ValueError) as error:
            reason = str(error)
        return f"{url} was not ready within {timeout:g} s: {reason}"

    return _wait_until_ready(timeout, check_readiness)


def _bind_listeners(advertised: str) -> str:
    """Return the listeners to bind: the names and ports of the advertised listeners, but on all interfaces."""
    listeners: list[str] = []
    for entry in advertised.split(","):
        name, scheme, address = entry.strip().partition("://")
        if not scheme or ":" not in address:
            raise ToolError(f"listeners: {entry!r} is not NAME://HOST:PORT")
        listeners.append(f"{name}://0.0.0.0:{address.rpartition(':')[2]}")
    return ",".join(listeners)


def _check_locally(command: str, words: Sequence[str]) -> int:
    """Run a command that only checks environment variables or files."""
    if command in {"ensure", "ensure-atleast-one"} and words:
        if any(os.environ.get(name) for name in words):
            return 0
        choice = words[0] if len(words) == 1 else f"One of {', '.join(words)}"
        write_error_line(f"{choice} is required.")
        return 1
    if command == "path" and words:
        kind = words[1] if len(words) > 1 else "exists"
        mode = {"writable": os.W_OK, "readable": os.R_OK, "executable": os.X_OK}.get(kind, os.F_OK)
        if os.access(words[0], mode):
            return 0
        write_error_line(f"path {words[0]} is not {kind if kind != 'exists' else 'there'}.")
        return 1
    raise UsageError(f"{command} is not one of the commands of this tool")


def fill_template(source: str, target: str) -> None:
    """Render the template `source` to the file `target`. If rendering fails, `target` stays unchanged.

    Templates use Jinja syntax. `env` holds the environment variables. `env_to_props` and `parse_log4j_loggers` are
    functions, as in Confluent's `dub`. The final newline, and newlines after blocks (`{% ... %}`), are removed.

    Raises:
        ToolError: A file cannot be read, rendered or written. The message names the file.
    """
    text = _render(source)
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolError(f"template: {target} cannot be written: {error.strerror}") from None


def _render(source: str) -> str:
    try:
        import jinja2  # noqa: PLC0415 - no other tool needs it
    except ImportError:
        raise ToolError("template needs Jinja: install minibroker with its extra tools") from None

    # The loader's directory is the root, so that templates can include others by absolute path.
    jinja_environment = jinja2.Environment(loader=jinja2.FileSystemLoader("/"), trim_blocks=True)  # noqa: S701 - properties, not HTML
    functions: dict[str, Any] = {"env_to_props": properties_from_environment, "parse_log4j_loggers": logger_levels}
    jinja_environment.globals.update(functions)
    try:
        return jinja_environment.get_template(os.path.realpath(source)).render(env=os.environ)
    except jinja2.TemplateNotFound as error:
        raise ToolError(f"template: there is no file {os.path.join('/', str(error.name or source))}") from None
    except jinja2.TemplateSyntaxError as error:
        location = f"{error.filename or source}, line {error.lineno}"
        raise ToolError(f"template: {location}: {error.message}") from None
    except Exception as error:  # noqa: BLE001 - a template may call anything, with any error
        raise ToolError(f"template: {source}: {type(error).__name__}: {error}") from None


def properties_from_environment(prefix: str, key_prefix: str, exclude: Collection[str] = ()) -> dict[str, str]:
    """Convert environment variables with a prefix to properties. Variables in `exclude` are ignored.

    In names, a single `_` becomes a dot, `___` a dash and `__` an underscore.
    """
    return {
        key_prefix
        + _SINGLE_UNDERSCORE.sub(".", name.removeprefix(prefix).lower()).replace("___", "-").replace("__", "_"): value
        for name, value in os.environ.items()
        if name.startswith(prefix) and name not in exclude
    }


def logger_levels(overrides: str, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return logger levels by logger name: the defaults, overridden by `LOGGER=LEVEL,...`."""
    pairs = (override.split("=") for override in overrides.split(","))
    return {**(defaults or {}), **dict(pair for pair in pairs if len(pair) == 2)}  # noqa: PLR2004 - name and level
