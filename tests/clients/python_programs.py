"""The members that are written in Python."""

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tests.clients.group_members import MemberProgram

_PLACES = Path(sysconfig.get_path("data"))
"""Where the Makefile puts clients that cannot share an environment with the others, a folder for each."""

_ONLY_EAGER = "it knows nothing of cooperative rebalancing"
_NO_STATIC = "it knows nothing of static members"
_NO_METADATA = "it does not show the metadata of a committed offset"


def programs() -> list[MemberProgram]:
    """kafka-python of three times, aiokafka, and confluent-kafka with its librdkafka."""
    return [
        MemberProgram("kafka-python", lambda: _script("kafka_python")),
        MemberProgram("kafka-python-2", lambda: _old("kafka_python", "kafka-python-2"), {"cooperative": _ONLY_EAGER}),
        MemberProgram(
            "kafka-python-1",
            lambda: _old("kafka_python", "old-client"),
            {"cooperative": _ONLY_EAGER, "static": _NO_STATIC, "metadata": _NO_METADATA},
        ),
        MemberProgram("aiokafka", lambda: _script("aiokafka"), {"cooperative": _ONLY_EAGER, "metadata": _NO_METADATA}),
        MemberProgram("librdkafka", lambda: _script("librdkafka")),
    ]


def _script(name: str, *arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", f"tests.clients.members.{name}_member", *arguments]


def _old(name: str, folder: str) -> Sequence[str]:
    place = _PLACES / folder
    assert place.is_dir(), f"{place} is not there: `make setup` makes it"
    return _script(name, str(place))
