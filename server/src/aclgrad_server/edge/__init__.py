"""The server's connections, and the resources of its process."""
