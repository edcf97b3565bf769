"""Groups and their committed offsets: classic, consumer, share and streams groups (Kafka's group coordinator)."""
