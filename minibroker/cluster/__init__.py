"""The state of the cluster: nodes, topics, partitions and leaders, fetch sessions, features, altered settings.

The place of Kafka's KRaft controller and its metadata: no log of metadata, but files that are replaced as a whole
(`topics_file`, `section_store`).
"""
