"""The state of the cluster: nodes, topics, partitions and leaders, fetch sessions, features, altered settings.

- `cluster` has the nodes and elects leaders; `node` is one of them, with its fetch sessions (`fetch_sessions`).
- `topics` and `partition` are the topics; `directories` removes them, and finds those that another broker has left.
- `section_store` keeps ACLs, credentials, quotas and `dynamic_configs`. `durability` delays responses to changes.

Kafka has a log of metadata, `__cluster_metadata`. Here files are replaced as a whole.
"""
