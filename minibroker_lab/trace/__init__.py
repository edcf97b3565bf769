"""`minibroker trace`: a proxy between Kafka clients and brokers that shows their traffic.

`proxy` has the sockets and the listening ports. `conversation` splits bytes into frames and matches requests with
responses, `reading` decodes both, and `lines` shows them. Nothing here uses the state of a broker.
"""
