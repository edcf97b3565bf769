"""Logs of Kafka as tables: a data source, a writer and jobs for Spark, over the files and over the broker.

`decode` turns bytes of log files into Arrow without an object per record; it knows nothing of Spark.
"""
