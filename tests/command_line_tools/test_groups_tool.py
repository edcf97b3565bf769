"""kafka-groups lists groups of all types."""

from tests.clients.contract import Message
from tests.clients.librdkafka_client import Librdkafka
from tests.command_line_tools.runs import run_tool


def test_groups_are_listed_and_filtered(broker: str) -> None:
    Librdkafka(broker).create_topic("orders", 1)
    Librdkafka(broker).produce("orders", [Message(b"1")])
    read = ("kafka-console-consumer", "--bootstrap-server", broker, "--topic", "orders", "--from-beginning")
    assert run_tool(*read, "--max-messages", "1", "--group", "readers").status == 0
    words = ("kafka-groups", "--bootstrap-server", broker, "--list")
    line = f"{'readers':20} {'Classic':20} {'consumer':20} "
    shown = [["--consumer"], ["--group-type", "classic"], ["--protocol", "consumer"], []]
    hidden = [["--share"], ["--streams"], ["--group-type", "Consumer"], ["--protocol", "connect"]]
    for filters in shown + hidden:
        lines = run_tool(*words, *filters).out.splitlines()
        assert lines[0].split() == ["GROUP", "TYPE", "PROTOCOL"]
        assert (line in lines) == (filters in shown), filters
