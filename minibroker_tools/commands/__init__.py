"""One module for each tool: `options(tool)` declares its options, `run(options, arguments)` returns its exit status."""
