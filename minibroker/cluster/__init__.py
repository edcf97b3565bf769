"""The state of the cluster: nodes, topics, partitions and leaders, feature levels, and altered settings."""
