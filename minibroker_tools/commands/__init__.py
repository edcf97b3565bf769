"""The commands, with a module for each tool or family of tools.

`declare_options(tool)` declares the tool's options, and `run(options, arguments)` returns its exit status.
"""
