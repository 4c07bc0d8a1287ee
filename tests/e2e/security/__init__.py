"""What a network of strangers is kept from."""
