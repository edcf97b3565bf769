"""SASL authentication."""
