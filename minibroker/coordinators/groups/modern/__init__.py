"""The parts that consumer, share and streams groups have in common: Kafka calls these groups modern."""
