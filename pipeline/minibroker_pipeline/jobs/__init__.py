"""Jobs on log directories. Each job is a function and a command of `minibroker-pipeline`.

`stats` measures the sizes of formats and codecs, `verify` looks for damage, and `diff` compares two directories. These
three read files in local processes or in Spark tasks, return counts instead of records, and do not require Spark.
`compact` and `convert` write new directories, also in processes or tasks. `export` writes Parquet with a Spark query on
the data source, and `import_` writes topics from files.
"""
