"""UUIDs as Kafka writes them."""

import binascii
from typing import Final

_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def uuid_text(uuid: bytes) -> str:
    """Kafka's text form of a uuid of 16 bytes: URL-safe base64 without padding, 22 characters."""
    return binascii.b2a_base64(uuid, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()
