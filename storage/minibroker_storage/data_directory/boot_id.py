"""The machine's present run, which distinguishes the crash of a process from that of the machine."""

import sys
from typing import Final

MAX_BOOT_ID: Final = 256
"""Bytes."""


def boot_id() -> str | None:
    """The id of the machine's present run; None where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return _sysctl(b"kern.bootsessionuuid") if sys.platform == "darwin" else None


def _sysctl(name: bytes) -> str | None:
    import ctypes  # noqa: PLC0415 - macOS only

    text = ctypes.create_string_buffer(MAX_BOOT_ID)
    size = ctypes.c_size_t(MAX_BOOT_ID)
    failed = ctypes.CDLL(None).sysctlbyname(name, text, ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else text.value.decode(errors="replace").strip() or None
