"""`aclgrad check`: compares a server's results with the definitions."""
