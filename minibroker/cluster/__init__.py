"""The state of the cluster: nodes, topics, partitions and leaders, fetch sessions, features, dynamic configurations.

- `cluster` holds the nodes and elects leaders. `node` is a single node with its fetch sessions (`fetch_sessions`).
- `topics` and `partition` hold the topics. `directories` deletes topic directories, and finds those that another broker
  left behind.
- `cluster_metadata` stores ACLs, credentials, quotas and `dynamic_configs`. `durability` delays responses to changes.

Kafka has a metadata log, `__cluster_metadata`. This broker replaces whole files instead.
"""
