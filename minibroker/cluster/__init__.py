"""The state of the cluster: nodes, topics, partitions and leaders, fetch sessions, feature levels, altered settings."""
