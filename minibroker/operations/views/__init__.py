"""The state of a broker as shown by the lab's page: dataclasses of plain values, as in `minibroker_storage.views`.

- `groups`: groups of all types with members, assignments, committed offsets and lag.
- `state`: brokers, leaders and in-sync replicas; fetch sessions, and delayed requests with the reason for each delay;
  transactional ids, and the possible transitions between their states.
- `consumer_offsets`: the commits of one partition, and the state of groups at an earlier time.

All functions run on the broker's event loop. Those that read logs do so for at most 3 ms per turn. They raise
`OperationError` for objects that do not exist.
"""
