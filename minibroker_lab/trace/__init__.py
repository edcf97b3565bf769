"""`minibroker trace`: a proxy between Kafka's clients and brokers that shows what passes.

`proxy` has the sockets and the listening ports. `conversation` cuts bytes into frames and matches requests with
responses, `reading` decodes both, and `lines` shows them. Nothing here knows a broker from within.
"""
