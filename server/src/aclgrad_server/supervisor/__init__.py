"""The supervisor of a host: runs a worker on each card, without loading gRPC or a runtime."""
