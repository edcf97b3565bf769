"""Records in flight to members of share groups (Kafka's `SharePartition`, `SharePartitionManager`; KIP-932).

- `share_partition` is one partition in one group, `in_flight` has its batches, and `manager` has all share-partitions.
- `acquisition` selects records for a member. `changes` applies acknowledgements.
- `sessions` has the share sessions. `dead_letter_queues` writes the records that no member could process.

The groups themselves are in `coordinators.groups.share`. The states that survive a restart are in
`coordinators.share_state`.
"""
