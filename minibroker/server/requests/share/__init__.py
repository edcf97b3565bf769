"""ShareFetch and ShareAcknowledge requests (KIP-932): acquisition, waits (`DelayedShareFetch`), acknowledgements."""
