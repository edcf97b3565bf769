"""Kafka's command line tools in Python: `kafka-topics`, `kafka-console-producer` and their kin, without a JVM.

They speak Kafka's protocol with the codec of `minibroker_protocol` over blocking sockets, so they work against every
broker, Apache Kafka included.
"""
