"""The device that a process serves: it takes calls and returns completions."""
