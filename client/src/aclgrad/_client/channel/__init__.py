"""The servers behind a target, and the gRPC channels to them."""
