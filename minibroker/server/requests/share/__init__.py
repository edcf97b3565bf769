"""ShareFetch and ShareAcknowledge requests (KIP-932): acquisition, waiting (`DelayedShareFetch`), acknowledgements."""
