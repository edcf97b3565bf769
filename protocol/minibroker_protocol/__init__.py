"""Kafka's wire protocol and record formats: bytes to typed values and back, without I/O."""
