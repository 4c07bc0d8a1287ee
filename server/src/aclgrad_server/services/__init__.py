"""The gRPC services: each method decodes, calls and encodes, and nothing else."""
