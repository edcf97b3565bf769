"""One module per tool, with `declare_options(tool)` and `run(options, arguments)`, which returns the exit status."""
