"""Transactional ids and their transactions (Kafka's transaction coordinator)."""
