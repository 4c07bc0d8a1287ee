"""From a caller's arguments to bytes, and from a reply to its outputs."""
