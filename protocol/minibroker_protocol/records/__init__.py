"""Record sets in Kafka's message formats v0, v1 and v2, their varints, and the codecs that Kafka names.

- `batch` and `record` read format v2, `builder` writes it, `header` has the fields before the records. `legacy` has
  formats v0 and v1.
- `log_validator` checks what producers send, by the rules of an `append_policy`: `produced_batch` where bytes are
  appended as they come, `produced_set` where they are opened. `restamp` changes bytes in place.
- `compression` finds a codec of `codecs`; `conversion` makes other formats of the same records.
"""
