"""Kafka's wire protocol and record formats: bytes to typed values and back, without I/O.

- `frame` has frames and headers, `messages` a module for each API, `schema` the language of their declarations.
- `codec` reads and writes messages by functions that `compiler` makes of declarations; `primitives` has the types.
- `records` has the three message formats, `coordinator_records` what coordinators write in them.
- `api_keys` and `error_codes` are Kafka's tables. `fields` shows bytes to people.
"""
