"""The records that members of a share group have in hand (Kafka's `SharePartition`, `SharePartitionManager`; KIP-932).

Delivery, locks and acknowledgements. The group itself is in `coordinators.groups.share`, and the states that outlast a
restart are in `coordinators.share_state`.
"""
