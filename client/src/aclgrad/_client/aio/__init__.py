"""The client for asyncio: grpc.aio and tasks."""
