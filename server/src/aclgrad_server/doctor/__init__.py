"""`aclgrad-server doctor`: finds out what keeps a server from running here, and with `--device` examines its device."""
