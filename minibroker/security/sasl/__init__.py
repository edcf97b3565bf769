"""Who a client is, by the mechanisms of SASL."""
