"""Consumer groups and committed offsets (Kafka's group coordinator)."""
