"""Groups and their committed offsets: classic, consumer, share and streams groups (Kafka's group coordinator).

- `coordinator` is the entry point to all groups of the broker. `registry` stores the groups by id.
- `classic`, `consumer`, `share` and `streams` each implement the groups of one protocol: members and rebalances.
  `modern` has the code shared by the last three. `assignors` has the server-side assignors.
- `commits` and `offsets` handle committed offsets, including those of open transactions. `removal` selects expired
  offsets.
- `store` writes everything to `__consumer_offsets`, and `replay` reads it after a start.
"""
