"""The devices of the host: they take calls and give completions."""
