"""Creates Kafka's UUIDs, and converts them to and from text (Kafka's `Uuid`)."""

import binascii
import os
from typing import Final

_BYTES: Final = 16
_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def new_uuid() -> bytes:
    """Return a random UUID that is not one of Kafka's reserved values and whose text does not start with a dash."""
    while True:
        uuid = os.urandom(_BYTES)
        if any(uuid[:-1]) and not uuid_text(uuid).startswith("-"):
            return uuid


def uuid_text(uuid: bytes) -> str:
    """Return Kafka's text form of a 16-byte UUID: URL-safe Base64 without padding, 22 characters."""
    return binascii.b2a_base64(uuid, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID's text form.

    Raises:
        ValueError: the text is not a UUID.
    """
    uuid = binascii.a2b_base64(text.encode().translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    if len(uuid) != _BYTES:
        raise ValueError(f"{text!r} is not a UUID")
    return uuid
