"""The HTTP listener for those who run the server: liveness and readiness."""
