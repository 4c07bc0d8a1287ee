"""The client for synchronous code: grpc and threads."""
