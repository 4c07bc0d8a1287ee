"""The client. `sync` and `aio` make calls for threads and for asyncio; what they share does no input or output."""
