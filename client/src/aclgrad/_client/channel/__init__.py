"""Which servers a target stands for, and the gRPC channels to them."""
