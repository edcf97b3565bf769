"""Kafka's wire protocol and record formats: conversion between bytes and typed values, without I/O.

- `frame` handles frames and headers. `messages` has the messages of each API, and `schema` the decorators that declare
  them.
- `codec` reads and writes messages with functions that `compiler` generates. `primitives` has the wire types.
- `records` has the three record formats, and `coordinator_records` the records of the coordinators' topics.
- `api_keys` and `error_codes` are Kafka's tables. `fields` explains bytes field by field.
"""
