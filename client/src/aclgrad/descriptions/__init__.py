"""What a server says of itself and its operators."""
