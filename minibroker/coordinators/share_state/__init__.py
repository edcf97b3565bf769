"""The share coordinator: the states of share-partitions in `__share_group_state` (Kafka's `ShareCoordinator`; KIP-932).

The states survive a restart. Records in flight are in `coordinators.share_partitions`.
"""
