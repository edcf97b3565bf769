"""The state of a broker as a page shows it: plain values for `minibroker_protocol.json_values.dataclass_json`.

- `logs`: partitions as their segments, batches, index entries and look-ups (see `minibroker_storage.views`).
- `groups`: groups of both protocols with members, assignments, committed offsets and lag.
- `transactions`: transactional ids with the states that each may come to.
- `clients`: fetch sessions, and requests that are delayed, with what each waits for.

All run on the broker's loop, at most 3 ms in one turn, and raise `OperationError` for what is not there.
"""
