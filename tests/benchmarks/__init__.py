"""`make bench`: what a call costs beside a bare gRPC echo of the same bytes, and what it is made of."""
