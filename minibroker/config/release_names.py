"""The names of Kafka's releases, and their order."""

from typing import Final

RELEASES: Final = (
    "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1",
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The minor releases that can be emulated, oldest first."""


def release_name(text: str) -> str | None:
    """Return the entry of `RELEASES` that a user means: "2.0", "2.0.1", "v3.9.x", "0.10" (the last of its line)."""
    numbers = text.strip().removeprefix("v").removesuffix(".x").split(".")
    for count in (3, 2):
        if ".".join(numbers[:count]) in RELEASES:
            return ".".join(numbers[:count])
    same_line = [name for name in RELEASES if name.startswith(f"{'.'.join(numbers)}.")]
    return same_line[-1] if same_line and all(map(str.isdecimal, numbers)) else None


def is_before(name: str | None, release: str) -> bool:
    """Return whether a broker that emulates the release `name`, or none, behaves as before `release`."""
    return name is not None and RELEASES.index(name) < RELEASES.index(release)
