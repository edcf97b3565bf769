"""Kafka logs as tables: a Spark data source, a sink and jobs, which use log files or brokers.

`decode` turns the bytes of log files into Arrow data without an object per record. It does not depend on Spark.
"""
