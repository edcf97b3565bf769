"""The commands of docs/tools.md work, and the page lists every tool."""

import re
import shlex

from minibroker import Broker
from minibroker_tools.dispatch import TOOLS
from tests.command_line_tools.runs import Printed, run_tool
from tests.documented import ROOT, blocks

PAGE = "docs/tools.md"


def test_the_commands_of_the_page_succeed() -> None:
    _, commands = [block.text for block in blocks(PAGE) if block.language == "sh"]  # The first command installs them.
    printed: list[Printed] = []
    with Broker() as broker:
        for line in commands.splitlines():
            piped, _, command = line.rpartition(" | ")
            stdin = shlex.split(piped)[1].replace(r"\n", "\n").encode() if piped else b""
            words = shlex.split(command.replace("localhost:9092", broker.bootstrap_servers))
            assert words[0] == "minibroker-tools"
            printed.append(run_tool(*words[1:], stdin=stdin))
            assert printed[-1].status == 0, f"{line}: {printed[-1]}"
        assert "one\ntwo\n" in [run.out for run in printed]
        consumer = next(line for line in commands.splitlines() if "consumer" in line).replace(
            "--max-messages 2", "--timeout-ms 1"
        )
        ended = run_tool(*shlex.split(consumer.replace("localhost:9092", broker.bootstrap_servers))[1:])
    assert (ended.status, "TimeoutException" in ended.err) == (0, True)


def test_the_page_names_every_tool() -> None:
    named = set(re.findall(r"`([\w-]+)`", (ROOT / PAGE).read_text()))
    assert set(TOOLS) <= named
