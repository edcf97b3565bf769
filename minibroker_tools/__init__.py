"""Python versions of Kafka's command line tools, such as `kafka-topics` and `kafka-console-producer`, without a JVM.

The tools use the codec of `minibroker_protocol` over blocking sockets, so they work with every broker, including Apache
Kafka.
"""
