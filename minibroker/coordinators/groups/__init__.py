"""Groups and their committed offsets: classic, consumer, share and streams groups (Kafka's group coordinator).

- `coordinator` is the entry point, with all groups of the broker. `registry` has them by name.
- `classic`, `consumer`, `share` and `streams` implement the group, its members and its rebalances for one protocol.
  `modern` has the code shared by the last three. `assignors` compute their target assignments.
- `commits` and `offsets` handle committed offsets, including those of open transactions. `removal` selects expired
  ones.
- `store` writes everything to `__consumer_offsets`, and `replay` reads it after a start.
"""
