"""What is known to fail, with its reason."""

from typing import Final

KNOWN: Final[dict[tuple[str, str], str]] = {}
"""By driver and check: what passes on Kafka and not here yet."""

NOT_OURS: Final[dict[tuple[str, str], str]] = {
    (
        "kafka-python-2.2",
        "acks-0",
    ): "It reports success and closes the connection before the broker has read all of it.",
}
"""By driver and check: what fails on both releases of Kafka, for a reason that lies in the client."""
