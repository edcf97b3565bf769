"""The state of a broker as a page shows it. All are dataclasses of plain values, as in `minibroker_storage.views`.

- `groups`: groups of both protocols with members, assignments, committed offsets and lag.
- `transactions`: transactional ids with the states that each may come to.
- `clients`: fetch sessions, and requests that are delayed, with what each waits for.
- `replicas`: brokers, leaders and in-sync replicas. `consumer_offsets`: commits, and groups as they were.

All run on the broker's loop; what reads logs does so for 3 ms in one turn. They raise `OperationError` for what is not
there.
"""
