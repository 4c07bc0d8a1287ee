"""What a server says of itself, its operators and its host."""
