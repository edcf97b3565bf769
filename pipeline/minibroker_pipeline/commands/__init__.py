"""The command line of each job, a module each: `add` declares its options, `run` runs it. `cli` knows them all."""
