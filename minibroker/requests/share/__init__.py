"""ShareFetch and ShareAcknowledge requests (KIP-932): records to acquire, acknowledgements."""
