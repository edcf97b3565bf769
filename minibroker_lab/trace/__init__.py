"""`minibroker trace`: a proxy between Kafka clients and brokers that shows their traffic.

`proxy` has the sockets and the listening ports. `conversation` splits bytes into frames and matches requests with
responses, `reading` decodes both, and `lines` shows them. No module here depends on the inside of a broker.
"""
