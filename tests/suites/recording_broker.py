"""The broker that a foreign suite meets, in a process of its own, which notes when each connection was first used.

    python -m tests.suites.recording_broker HOST:PORT NOTES [PROPERTIES]

It prints a line as Apache Kafka logs it once it is ready, and appends to the file NOTES when it is asked to end
(SIGTERM): for every connection the second since the epoch at which its first request came. PROPERTIES is a file with
Kafka's names; where to listen and where the logs are is not taken from it.
"""

import signal
import sys
from pathlib import Path

from minibroker import Broker
from minibroker.config.properties import parse_properties

NOTED = 1_000_000
"""Requests; no suite sends as many."""


def main() -> None:
    listen, notes, *files = sys.argv[1:]
    config = parse_properties(Path(files[0]).read_text()) if files else {}
    ending = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)  # for the broker's thread, too: `sigwait` takes them
    with Broker(listen=listen, config=config, journal=NOTED) as broker:
        node = config.get("node.id", "0")
        sys.stdout.write(f"[KafkaServer id={node}] started, minibroker at {broker.bootstrap_servers}\n")
        sys.stdout.flush()
        signal.sigwait(ending)
        first: dict[str, float] = {}
        for entry in broker.requests:
            first.setdefault(entry.connection, entry.time_ms / 1000)
    with open(notes, "a", encoding="utf-8") as lines:
        lines.writelines(f"{moment}\n" for moment in first.values())


if __name__ == "__main__":
    main()
