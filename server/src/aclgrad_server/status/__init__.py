"""The one picture of the server, which GetServerStatus, the status page and `aclgrad status` show."""
