"""The coordinators of groups, transactions and share-partitions, and the internal topics that store their state.

`coordinator_log` writes and reads an internal topic. `partition_loader` has the base of the coordinators' stores, which
loads partitions when the broker starts and when their leader moves.
"""
