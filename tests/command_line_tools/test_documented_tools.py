"""The commands of docs/tools.md run, and the page names every tool."""

import re
import shlex

from minibroker import Broker
from minibroker_tools.dispatch import TOOLS
from tests.command_line_tools.runs import ours
from tests.documented import ROOT, blocks

PAGE = "docs/tools.md"


def test_the_commands_of_the_page_succeed() -> None:
    with Broker() as broker:
        count = 0
        for block in blocks(PAGE):
            if block.language != "sh":
                continue
            for line in block.text.splitlines():
                words = shlex.split(line.replace("localhost:9092", broker.bootstrap_servers))
                assert words[0] == "minibroker-tools"
                printed = ours(*words[1:])
                assert printed.status == 0, f"{line}: {printed}"
                count += 1
        assert count > 0


def test_the_page_names_every_tool() -> None:
    named = set(re.findall(r"`([\w-]+)`", (ROOT / PAGE).read_text()))
    assert set(TOOLS) <= named
