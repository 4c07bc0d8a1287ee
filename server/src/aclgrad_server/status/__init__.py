"""The status of the server, shown by GetServerStatus, the status page and `aclgrad status`."""
