"""The records that members of a share group have in hand (Kafka's `SharePartition`, `SharePartitionManager`; KIP-932).

- `share_partition` is one partition in one group, `in_flight` its batches, `manager` has them all.
- `acquisition` gives records to a member and times its locks, `changes` are what its acknowledgements do.
- `sessions` has the share sessions. `dead_letter_queues` takes records that no member could process.

The group itself is in `coordinators.groups.share`, and the states that outlast a restart are in
`coordinators.share_state`.
"""
