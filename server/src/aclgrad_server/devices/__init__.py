"""The device of a process: it takes calls and returns completions."""
