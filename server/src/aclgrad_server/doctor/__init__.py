"""`aclgrad-server doctor`: what keeps a server from running here, and with `--device` what its device does."""
