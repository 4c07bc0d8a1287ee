"""The gRPC services: each method makes a program of messages, and a reply of its outcome."""
