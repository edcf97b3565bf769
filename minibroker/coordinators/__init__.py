"""The coordinators of groups, transactions and share-partitions, and the internal topics that store their state.

`coordinator_log` writes and reads an internal topic. `partition_loader` has the base class of the coordinators' stores.
It loads partitions on startup and after a leader change.
"""
