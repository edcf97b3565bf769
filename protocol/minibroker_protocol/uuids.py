"""UUIDs as Kafka makes and writes them (Kafka's `Uuid`)."""

import binascii
import os
from typing import Final

_BYTES: Final = 16
_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def new_uuid() -> bytes:
    """A random uuid that Kafka accepts: none of its reserved values, and its text does not start with a dash."""
    while True:
        uuid = os.urandom(_BYTES)
        if any(uuid[:-1]) and not uuid_text(uuid).startswith("-"):
            return uuid


def uuid_text(uuid: bytes) -> str:
    """Kafka's text form of a uuid of 16 bytes: URL-safe base64 without padding, 22 characters."""
    return binascii.b2a_base64(uuid, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a uuid's text form. ValueError when it is none."""
    uuid = binascii.a2b_base64(text.encode().translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    if len(uuid) != _BYTES:
        raise ValueError(f"{text!r} is not a UUID")
    return uuid
