"""The one status of the server, which GetServerStatus, the status page and `aclgrad status` show."""
