"""Random programs, what a server should answer to them, and whether it did."""
