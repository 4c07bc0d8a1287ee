"""`make bench`: the cost of a call compared with a bare gRPC echo of the same bytes, and the parts of that cost."""
