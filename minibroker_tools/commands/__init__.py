"""One module per tool: `options(tool)` declares its options, `run(options, arguments)` returns its exit status."""
