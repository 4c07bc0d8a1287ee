"""What others learn of a server, and how they connect."""
