"""The share coordinator: the states of share-partitions in `__share_group_state` (Kafka's `ShareCoordinator`; KIP-932).

The state outlasts a restart. The records in hand are in `coordinators.share_partitions`.
"""
