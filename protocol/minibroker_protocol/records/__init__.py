"""Record sets in Kafka's message formats v0, v1 and v2, with their varints and Kafka's compression codecs.

- `batch` and `record` read format v2, `builder` writes it, and `header` has the fields before the records. `legacy`
  reads and writes formats v0 and v1.
- `log_validator` checks produced records against an `append_policy`. It uses `produced_batch` for bytes that are
  appended unchanged, and `produced_set` for records that must be read. `restamp` changes bytes in place.
- `compression` selects a codec from `codecs`. `conversion` writes the same records in other formats.
"""
