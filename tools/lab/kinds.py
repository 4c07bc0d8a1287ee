"""The kinds of calls, coroutines for either client; like the caller, they run with any release."""

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import aclgrad
from tools.lab.known import WrongGradientError

BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class Call:
    """One operation: what is asked, and within what time."""

    callers: Any
    """Those of the process, which have the clients."""
    kind: "Kind"
    asked: Sequence[Any]
    source: random.Random
    deadline_s: float

    @property
    def client(self) -> Any:
        return self.callers.client(self.kind.client)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of call: how it is made, by which client, and with how many questions."""

    make: Callable[[Call], Awaitable[str]]
    client: str = "calls"
    count: int = 1


async def _execute(call: Call, client: Any = None) -> str:
    [known] = call.asked
    arguments = known.operator, known.inputs, known.attributes
    known.compare(await maybe_await((client or call.client).execute(*arguments, timeout_s=call.deadline_s)))
    return "right"


async def _by_newcomer(call: Call) -> str:
    """A client that is made for one call."""
    client = call.callers.new_client("calls")
    try:
        return await _execute(call, client)
    finally:
        await maybe_await(client.close())


async def _batch(call: Call) -> str:
    batch = call.client.batch()
    for each in call.asked:
        batch.execute(each.operator, each.inputs, each.attributes)
    for known, gradient in zip(call.asked, await maybe_await(batch.run(timeout_s=call.deadline_s)), strict=True):
        known.compare(gradient)
    return "right"


async def _program(call: Call) -> str:
    """Connected steps."""
    [known] = call.asked
    program = call.client.program()
    wanted = known.add_to(program)
    known.compare(await maybe_await(program.run(*wanted, timeout_s=call.deadline_s)))
    return "right"


async def _of_any_size(call: Call) -> str:
    """A size of its own each time, so that neither pool nor heap sees the same twice."""
    shape = (1, call.source.randint(200, 800), call.source.randint(200, 800))
    ones = np.ones((1, 1, 1), np.float32)
    gradient = await maybe_await(call.client.adaptive_avg_pool2d_backward(ones, shape, timeout_s=call.deadline_s))
    if gradient.shape != shape or not np.allclose(gradient, 1 / (shape[1] * shape[2]), rtol=1e-3):
        raise WrongGradientError(f"shape {gradient.shape}, sum {gradient.sum()}")
    return "right"


async def _bad(call: Call) -> str:
    [(operator, inputs, attributes)] = call.asked
    try:
        await maybe_await(call.client.execute(operator, inputs, attributes))
    except aclgrad.RequestError:
        return "refused"
    raise WrongGradientError(f"a bad call of {operator} was answered")


async def _late(call: Call) -> str:
    [known] = call.asked
    limit_s = call.source.uniform(1e-4, 3e-3)
    try:
        await maybe_await(call.client.execute(known.operator, known.inputs, known.attributes, timeout_s=limit_s))
    # A worker that is being restarted may be what the call met before its time was over.
    except (aclgrad.DeadlinePassedError, aclgrad.RetryableError):
        return "late"
    return "right"


async def _cancelled(call: Call) -> str:
    """Only a call of an event loop can be taken back."""
    task = asyncio.ensure_future(_execute(call))
    await asyncio.sleep(call.source.uniform(0.0, 3e-3))
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return "cancelled"


async def _by_torch(call: Call) -> str:
    """A graph of PyTorch; the time limit is the client's."""
    import torch

    import aclgrad.torch

    [known] = call.asked
    torch.set_num_threads(1)
    images = torch.zeros(known.inputs["self"].shape, requires_grad=True)
    grad_output = torch.from_numpy(known.inputs["grad_output"])
    aclgrad.torch.adaptive_avg_pool2d(images, grad_output.shape[2:], client=call.client).backward(grad_output)
    assert images.grad is not None
    known.compare(images.grad.numpy())
    return "right"


KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("unary", "operator", "large", "huge"), Kind(_execute)),
    "any size": Kind(_of_any_size),
    "batch": Kind(_batch, count=BATCH),
    **dict.fromkeys(("program", "program in chunks"), Kind(_program)),
    "chunked": Kind(_execute, client="chunks"),
    "shared": Kind(_execute, client="shared"),
    "shared program": Kind(_program, client="shared"),
    "newcomer": Kind(_by_newcomer),
    "bad": Kind(_bad),
    "late": Kind(_late),
    "cancelled": Kind(_cancelled),
    "torch": Kind(_by_torch),
}


async def maybe_await(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
