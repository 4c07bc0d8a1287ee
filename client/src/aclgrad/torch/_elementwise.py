"""The functions of each element by itself."""

from typing import Any

from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.torch._run import run


def silu(input: Tensor, inplace: bool = False, *, client: Client) -> Tensor:
    """Returns input * sigmoid(input), as `torch.nn.functional.silu`.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    return _run("silu", client, input, inplace)


def _run(name: str, client: Client, input: Tensor, inplace: bool, *arguments: Any) -> Tensor:
    if not inplace:
        result: Tensor = run(name, client, input, *arguments)
        return result
    # As PyTorch, which saves a copy where the gradient needs what is overwritten.
    return input.copy_(run(name, client, input.clone(), *arguments))
