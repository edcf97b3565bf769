"""`make check`: the tests that need Python alone, and the tools of others hidden from them.

Tests ask for Java or a compiler of another language in a fixture, or with a function of `tests.clients.toolchains`.
The first are known by the fixture, the second by their place, which is in a list here. The list stays true, since the
tests of `make check` find no tool but programs that note who has started them, and fail. In `make test` a test that is
not in the list and starts a tool fails, too.
"""

import os
import re
import sys
import tempfile
from collections.abc import Collection, MutableMapping
from pathlib import Path
from typing import Final

HIDDEN: Final = (
    *("java", "javac", "mvn"),
    *("node", "npm", "npx"),
    *("go", "cargo", "rustc"),
    *("cc", "gcc", "clang", "c++", "g++"),
    *("kcat", "kafkacat", "apt-get", "dpkg-deb"),
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)
"""Programs that `make check` must not start."""
FIXTURES: Final = frozenset(
    {"browser", "kafka_libs", "kafka_4", "kafkas", "newest_kafka", "own_tests_jvm", "re2", "site", "spark"}
)
"""The fixtures that ask for one of them; so does every fixture and test that has such a fixture."""
ELSEWHERE: Final = re.compile(
    r"""
    tests/clients/.*\[([\w.\ -]*-)?(java|kafkajs|franz-go|node|go|rust|[34]\.\d\.\d)(-[\w.\ ]+)?\]
    | tests/clients/test_(control_clients|language_pages|lessons)\.py::.*
    | tests/clients/matrix/test_matrix\.py::test_(what_a|a)_.*
    | tests/clients/matrix/test_programs\.py::test_connectors_.*
    | tests/clients/test_(java|share_consumers|streams)\.py::.*
    | tests/clients/.*::test_(a_)?java(_|\[).*
    | tests/clients/test_epochs\.py::test_(producers_of_either_kind|offsets_and_records_of_one_transaction)_.*
    | tests/clients/test_transactors\.py::test_a_member_that_slept_past_its_session_.*
    | tests/clients/test_racks\.py::test_sarama_.*
    | tests/clients/test_consumer_groups\.py::test_members_of_all_clients_are_in_one_group
    | tests/command_line_tools/.*\[kafka(-.*)?\]
    | tests/command_line_tools/test_against_newest_kafka\.py::.*
    | tests/command_line_tools/test_(share_tools|streams_groups_tool)\.py::.*
    | tests/command_line_tools/test_kcat\.py::test_.*_as_by_kcat\[.*
    | tests/docker/test_testcontainers\.py::test_(java\[|node|go|rust).*
    | tests/kafka/test_releases\.py::test_a_release_tells_.*
    | tests/kafka/test_release_answers\.py::.*
    | tests/kafka/test_consumer_groups\.py::test_kafka_4_4_.*
    | tests/kafka/test_(newest_(authorization|directories)|odd_requests)\.py::.*
    | tests/kafka/test_(assignors|share_assignor|share_groups|sticky_assignor|streams_groups)\.py::.*
    | tests/storage/test_dump_against_newest_kafka\.py::.*
    | tests/broker/security/tls/test_java_key_stores\.py::.*
    | tests/broker/grade/test_peers\.py::.*\[kfake\]
    | tests/broker/control/test_documented\.py::test_(node|java|go)
    | tests/torture/test_exactly_once\.py::.*\[java\]
    | tests/protocol/test_kafka_definitions\.py::.*
    | tests/pipeline/.*test_verify_directories\.py::.*\[theirs-.*
    """,
    re.VERBOSE,
)
"""The tests that ask for a tool themselves."""
STARTED: Final = "MINIBROKER_TOOLS_STARTED"
"""The environment's name for the file in which the hidden programs are noted."""

_STAND_IN: Final = f"""\
#!/bin/sh
echo "$0 $*" >> "${STARTED}"
echo "$0 is hidden from the tests of make check" >&2
exit 127
"""


def needs_tools(name: str, fixtures: Collection[str]) -> bool:
    """Whether a test of this name, with these fixtures, needs more than Python."""
    return not FIXTURES.isdisjoint(fixtures) or ELSEWHERE.fullmatch(name) is not None


def hide(folder: Path, environment: MutableMapping[str, str]) -> None:
    """Have an environment find, for each tool, a program in `folder` that notes its start and fails."""
    for name in HIDDEN:
        path = folder / name
        path.write_text(_STAND_IN)
        path.chmod(0o755)
    environment["PATH"] = os.pathsep.join([str(folder), environment.get("PATH", os.defpath)])
    environment[STARTED] = str(folder / "started")
    environment["CI"] = "true"  # so that a tool that is missing is a failure
    for name in ("JAVA_HOME", "KAFKA_LIBS"):
        environment.pop(name, None)


class Watch:
    """Finds tests that start a tool and are not known to need one; `running` is the name of a test and its fixtures."""

    def __init__(self, cache: Path) -> None:
        """`cache` is the folder of programs that tools have built."""
        self.running: tuple[str, Collection[str]] | None = None
        self._cache = cache

    def install(self) -> None:
        """Look at each process that this one starts, from now on and for good."""
        sys.addaudithook(self.see)

    def see(self, event: str, arguments: tuple[object, ...]) -> None:
        """Take an audit event. AssertionError when it is the start of a tool that the running test must not have."""
        if event != "subprocess.Popen" or self.running is None or needs_tools(*self.running):
            return
        program = Path(os.fsdecode(str(arguments[0])))
        is_tool = program.name in HIDDEN and not program.is_relative_to(tempfile.gettempdir())
        if is_tool or program.is_relative_to(self._cache):
            raise AssertionError(f"{self.running[0]} starts {program}: it belongs into the list of tests/tools.py")


def started(environment: MutableMapping[str, str]) -> list[str]:
    """The hidden programs that were started, with their arguments."""
    path = Path(environment[STARTED])
    return path.read_text().splitlines() if path.exists() else []
