"""The coordinators of groups and of transactions, and the internal topics that keep their state."""
