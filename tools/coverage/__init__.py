"""How much of known models' training steps the server computes, and how exactly: `make coverage`."""
