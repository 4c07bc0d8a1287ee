"""The gRPC services: each method turns messages into a program, and its outcome into a reply."""
