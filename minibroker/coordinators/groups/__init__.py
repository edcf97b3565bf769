"""Groups and their committed offsets: classic, consumer, share and streams groups (Kafka's group coordinator).

- `coordinator` begins here: all groups of the broker. `known` has them by name.
- `classic`, `consumer`, `share` and `streams` have the group, its members and its rebalances, each for one protocol.
  `modern` is common to the last three; `assignors` compute their targets.
- `commits` and `offsets` have committed offsets, also those of open transactions; `expiry` removes old ones.
- `store` writes all of it to `__consumer_offsets`, as `group_records`; `replay` reads it after a start.
"""
