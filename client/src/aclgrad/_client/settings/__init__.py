"""What a client is given: credentials, metadata, time limits, the environment."""
