"""Keys of configurations that the newest Kafka has, and Kafka 3.9 has not."""

from typing import Final

NEWER_OF_TOPICS: Final = frozenset(
    {
        "errors.deadletterqueue.group.enable",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
    }
)
"""Those of topics."""
