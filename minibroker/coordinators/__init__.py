"""The coordinators of groups, transactions and share-partitions, and the internal topics that keep their state.

`coordinator_log` writes and reads such a topic, and `partition_loader` loads its partitions, when the broker starts
and when their leader moves.
"""
