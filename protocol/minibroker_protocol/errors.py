"""What can be wrong with bytes that a peer sent, or with a value that we were asked to write.

`DecodeError` and its children are the peer's fault; `EncodeError` is ours. None of them carries a wire code: the
broker maps them to Kafka's error codes in one place.
"""


class ProtocolError(Exception):
    """Base of everything this package raises on purpose."""


class EncodeError(ProtocolError):
    """A value cannot be written: out of its field's range, or null where the version knows no null. Our fault."""


class DecodeError(ProtocolError):
    """The bytes are not what the schema says: truncated, a negative length, a bad varint. The peer's fault."""


class CorruptRecordError(DecodeError):
    """A record batch whose size or checksum is wrong (Kafka's `CorruptRecordException`)."""


class InvalidRecordError(DecodeError):
    """A batch with a right checksum whose contents break a rule, such as a lying count (`InvalidRecordException`)."""


class UnsupportedMagicError(DecodeError):
    """A message format that this reader does not take (`UnsupportedForMessageFormatException`)."""


class UnsupportedCodecError(DecodeError):
    """A compression codec that does not exist, or is not allowed here (`UnsupportedCompressionTypeException`)."""
