"""One module per tool.

`declare_options(tool)` declares the tool's options, and `run(options, arguments)` returns its exit status.
"""
