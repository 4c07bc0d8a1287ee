"""Random programs from a raw client, and whether a server answers them as it should."""
