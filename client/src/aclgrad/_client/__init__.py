"""The inside of the clients; their users find its public names in `aclgrad`. From top to bottom:

sync, aio        the two clients, for threads and for asyncio, and their transports: the only input and output
base_client the arguments of both core             the course of a call, written once as coroutines over a transport
shared_memory    large tensors in memory that the server shares calls            from a caller's arguments to bytes, and
from a reply to its outputs attempts         when a call is made again, and the error of one that failed channel the
servers that a target stands for, and the gRPC channels to them settings arguments of clients: credentials, metadata,
time limits, the environment reports the log, and the reports for `on_call`
"""
