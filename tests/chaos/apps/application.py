"""The command line of the Python applications, and their end by SIGTERM."""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType


class Application:
    """The arguments of one application.

    Attributes:
        fixed: whether to run without the bug.
        is_running: false after SIGTERM.
    """

    def __init__(self, names: Mapping[str, object]) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("name", choices=names)
        for option in ("bootstrap", "in", "out", "group"):
            parser.add_argument(f"--{option}", required=True)
        parser.add_argument("--fixed", action="store_true")
        arguments = vars(parser.parse_args())
        self.name: str = arguments["name"]
        self.bootstrap: str = arguments["bootstrap"]
        self.source: str = arguments["in"]
        self.target: str = arguments["out"]
        self.group: str = arguments["group"]
        self.fixed: bool = arguments["fixed"]
        self.is_running = True
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.is_running = False


def run(**applications: Callable[[Application], None]) -> None:
    """Run the application that the command line names."""
    application = Application(applications)
    applications[application.name](application)


def log(*words: object) -> None:
    """Write a line to stderr."""
    print(*words, file=sys.stderr, flush=True)  # noqa: T201 - an application logs
