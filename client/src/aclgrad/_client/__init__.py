"""The inside of the clients; their users find its public names in `aclgrad`. From top to bottom:

sync, aio        the two clients, for threads and for asyncio: the only input and output
base_client      what both are
shared_memory    large tensors in memory that the server shares
calls            from a caller's arguments to bytes, and from a reply to its outputs
server           what a server says of itself and its operators
attempts         when a call is made again, and the error of one that failed
channel          the servers that a target stands for, and the gRPC channels to them
settings         what a client is given: credentials, metadata, time limits, the environment
reports          the log, and what `on_call` is told
"""
