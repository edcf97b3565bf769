"""Authentication with the mechanisms of SASL."""
