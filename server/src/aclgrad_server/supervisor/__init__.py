"""The supervisor of a host: it runs a worker on each card and answers for all. It loads neither gRPC nor a runtime."""
