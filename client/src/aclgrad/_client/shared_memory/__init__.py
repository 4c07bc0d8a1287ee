"""Large tensors in memory that client and server share."""
