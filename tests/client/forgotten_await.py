"""What a type checker says of an operator without its `await`: `make lint` fails if mypy no longer reports it."""

import aclgrad


async def forget(client: aclgrad.AsyncClient) -> None:
    client.avg_pool2d_backward([[[1.0]]], (1, 2, 2), kernel_size=2)  # type: ignore[unused-coroutine]
    client.execute("avg_pool2d_backward", {})  # type: ignore[unused-coroutine]


async def remember(client: aclgrad.AsyncClient) -> aclgrad.Array:
    return await client.avg_pool2d_backward([[[1.0]]], (1, 2, 2), kernel_size=2)
