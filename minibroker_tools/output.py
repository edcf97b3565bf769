"""Standard output and standard error of a tool."""

import sys
import time


def out(line: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(line + "\n")


def err(line: str) -> None:
    """A line on standard error."""
    sys.stderr.write(line + "\n")


def log(level: str, message: str, logger: str) -> None:
    """A line on standard error as Kafka's tools log: time, level, message, logger."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    err(f"[{stamp},{int(now * 1000) % 1000:03d}] {level} {message} ({logger})")


def flush() -> None:
    """Hand what was written to the operating system."""
    sys.stdout.flush()
