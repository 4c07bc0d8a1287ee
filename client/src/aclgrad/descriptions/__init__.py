"""A server's descriptions of itself, its operators and its host."""
