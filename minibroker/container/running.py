"""The broker that runs in this container, found by its command line: the environment may say something else.

Start scripts export variables, `redpanda start` has options and files, and a command may be `minibroker serve`. None of
these is in the environment of a health check.
"""

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from minibroker.cli.options import DEFAULT_LISTEN, add_options
from minibroker.cluster import listeners
from minibroker.support.properties import parse_properties

HOLD_PORTS: Final = "--hold-ports"
"""The option of the entry point for a container that is a controller; a node and addresses follow."""
FOLLOW: Final = "--follow"
"""The option of the entry point for a container that passes its connections on."""
_PROC: Final = Path("/proc")


def addresses(proc: Path = _PROC) -> list[tuple[str, str]]:
    """(HOST:PORT, protocol) of all that the processes of this container listen on; the protocol is "" for silent ports.

    Empty while none runs. Ports that are free ones (0) are left out. ListenerError for a list that cannot be.
    """
    found: list[tuple[str, str]] = []
    for process in sorted(proc.glob("[0-9]*")):
        words: list[str] = []
        with contextlib.suppress(OSError):  # it has ended
            words = (process / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
        found += _listened(words, process)
    return [each for each in found if not each[0].endswith(":0")]


def _listened(words: Sequence[str], process: Path) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words[1:], 1):
        if word == "serve" and os.path.basename(words[place - 1]) == "minibroker":
            yield from _served(words[place + 1 :], process)
        elif word == HOLD_PORTS and os.path.basename(words[place - 1]) == "entrypoint.py":
            yield from ((address, "") for address in words[place + 2 :] if address)
        elif word == FOLLOW and os.path.basename(words[place - 1]) == "entrypoint.py":
            for text in filter(None, words[place + 3 :]):
                named, _, address = text.partition("=")
                yield address, named.partition(":")[0]


def _served(arguments: Sequence[str], process: Path) -> Iterator[tuple[str, str]]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser)
    options, _ = parser.parse_known_args([each for each in arguments if each])
    configs: dict[str, str] = {}
    for path in options.config:
        with contextlib.suppress(OSError):  # secrets, which name no listener, may be for the broker's user alone
            file = Path(path.replace("/proc/self/", f"{process}/"))
            configs |= parse_properties(file.read_text(encoding="utf-8"))
    for setting in options.settings:
        key, _, value = setting.partition("=")
        configs[key.strip()] = value.strip()
    if options.listen is None and configs.get("listeners"):
        for each in listeners.served_listeners(configs, configs["listeners"], "listeners"):
            yield f"{each.host}:{each.port}", each.protocol
    else:
        yield options.listen or DEFAULT_LISTEN, listeners.PLAINTEXT
    for text in options.also_listen:
        yield text.partition("=")[0], listeners.PLAINTEXT
    for text in (*options.silent_port, *options.link):
        yield text, ""
