"""`aclgrad compare`: compares two servers' results of the same calls with the definition and with each other."""
