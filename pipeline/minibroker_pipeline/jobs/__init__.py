"""Jobs over directories of logs, each a function and a verb of `minibroker-pipeline`.

`stats` measures what formats and codecs take, `verify` looks for damage, `diff` compares two directories, `export`
writes Parquet. The first three read files in processes of this machine or in Spark's tasks and send back counts, not
records; they need no Spark. `export` is a Spark query over the data source. `compact` and `convert` write
new directories, likewise in processes or tasks.
"""
