"""`aclgrad doctor`: what is between this program and a server, one finding for each step of the way."""
