"""The coordinators of groups, transactions and share-partitions, and the internal topics that keep their state."""
