"""The devices of the host: they take calls and return completions."""
