"""kafka-server-start and kafka-server-stop: start and stop minibroker instead of Kafka."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from minibroker_tools.commands.zookeeper import start_in_background
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options
from minibroker_tools.output import flush, write_line

_START: Final = "kafka-server-start"
_PROC: Final = "/proc"


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-server-start. kafka-server-stop has none."""
    if tool != _START:
        return Options(tool, "Stop the brokers of this user.")
    options = Options(tool, "Start minibroker: kafka-server-start [-daemon] server.properties [--override KEY=VALUE]")
    options.flag("daemon", help="run in the background")
    options.value("override", help="a property that overrides the file's", metavar="KEY=VALUE")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Replace this process with the broker, or stop all running brokers."""
    if options.tool != _START:
        if arguments:
            options.parse(arguments)
        return stop_brokers(list_processes())
    values = options.parse(arguments)
    if not values.words:
        raise UsageError("kafka-server-start needs a properties file")
    path = values.words[0]
    if not os.access(path, os.R_OK):
        raise ToolError(f"{path}: the file cannot be read")
    words = [sys.executable, "-m", "minibroker", "serve", "--config", path]
    for pair in values.all("override"):
        if "=" not in pair:
            raise ToolError(f"--override: {pair!r} is not KEY=VALUE")
        words += ["--set", pair]
    if values.has("daemon"):
        start_in_background(words)
        return 0
    flush()
    return os.execv(words[0], words)  # noqa: S606 - this process becomes the broker, so signals reach it


def stop_brokers(running: Iterable[tuple[int, Sequence[str]]]) -> int:
    """Send SIGTERM to the brokers among the processes. Like Kafka's script, do not wait for them."""
    pids = [pid for pid, words in running if _is_broker(words)]
    if not pids:
        write_line("No kafka server to stop")
        return 1
    for pid in pids:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    return 0


def _is_broker(words: Sequence[str]) -> bool:
    names = [os.path.basename(word) for word in words]
    if "serve" in names:
        before = names[: names.index("serve")]
        return bool(before) and before[-1] == "minibroker" and len(before) <= 3  # noqa: PLR2004 - python -m minibroker
    return len(names) > 1 and words[1].endswith("/minibroker/bin/entrypoint.py")


def list_processes() -> Iterator[tuple[int, list[str]]]:
    """Yield the process id and the command line of each of this user's processes."""
    if not os.path.isdir(_PROC):
        output = subprocess.run(["ps", "-xo", "pid=,command="], capture_output=True, text=True, check=False)  # noqa: S607 - where it lies depends on the system
        for line in output.stdout.splitlines():
            pid, *words = line.split()
            yield int(pid), words
        return
    for name in filter(str.isdecimal, os.listdir(_PROC)):
        try:
            if os.stat(f"{_PROC}/{name}").st_uid != os.getuid():
                continue
            with open(f"{_PROC}/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            continue
        yield int(name), words
