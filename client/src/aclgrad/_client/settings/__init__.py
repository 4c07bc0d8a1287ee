"""Arguments of clients: credentials, metadata, time limits, the environment."""
