"""The admin listener: HTTP for those who run the server."""
