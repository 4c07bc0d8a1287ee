"""Whole graphs of training steps as one program each: forward pass, loss and gradients, as PyTorch traces them.

What a forward row keeps for its gradient stays within the program, and some of it on the device alone.
"""

from collections.abc import Callable, Iterator
from operator import getitem
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

import aclgrad
from aclgrad import Handle
from aclgrad.products import Product
from aclgrad.testing import serve
from aclgrad.torch.aten import ROWS, VIEWS, Steps
from aclgrad.torch.aten.steps import cast, type_like
from aclgrad.torch.calls import array_of, tensor_of
from tests.judge.torch.running import drawn
from tools.serving import Server

Loss = Callable[..., Tensor]


@pytest.fixture(scope="module")
def direct() -> Iterator[aclgrad.Client]:
    with serve() as server, aclgrad.Client(server.target) as client:
        yield client


def gradients(loss: Loss) -> Callable[..., tuple[Tensor, ...]]:
    """Returns the function to a loss and its gradients by those arguments that have some."""

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        own = [each.detach().requires_grad_(each.is_floating_point()) for each in given]
        found = loss(*own)
        return found.detach(), *torch.autograd.grad(found, [each for each in own if each.requires_grad])

    return step


def parts(value: Any) -> list[Any]:
    return [part for each in value for part in parts(each)] if isinstance(value, list | tuple) else [value]


def translated(steps: Steps, loss: Loss, given: list[Tensor]) -> list[Any]:
    """Adds the steps of a traced graph, and returns its results."""
    graph = make_fx(functionalize(make_fx(gradients(loss))(*given)))(*given)
    values: dict[Any, Any] = {}
    arguments = iter(given)

    def value(node: Any) -> Any:
        if isinstance(node, torch.fx.Node):
            return values[node]
        return [value(each) for each in node] if isinstance(node, list | tuple) else node

    def computed(function: Any, args: Any, kwargs: Any) -> Any:
        if function is getitem:
            return args[0][args[1]]
        if function in VIEWS and isinstance(args[0], Handle):
            return VIEWS[function](steps, *args, **kwargs)
        if function in ROWS and any(isinstance(each, Handle) for each in parts(args)):
            return ROWS[function](steps, *args, **kwargs)
        # A constant, or the shape of a tensor.
        shapes = [
            torch.zeros(each.shape, dtype=getattr(torch, each.type.dtype.name)) if isinstance(each, Handle) else each
            for each in args
        ]
        plain = [tensor_of(each) if isinstance(each, np.ndarray) else each for each in shapes]
        made = function(*plain, **kwargs)
        return array_of(made) if isinstance(made, Tensor) else made

    for node in graph.graph.nodes:
        if node.op == "placeholder":
            array = array_of(next(arguments))
            is_number = array.dtype.kind not in "iub"
            values[node] = steps("inplace_copy", {"self": type_like(array), "src": array}) if is_number else array
        elif node.op == "get_attr":
            values[node] = array_of(getattr(graph, node.target))
        elif node.op == "output":
            return [values[each] for each in node.args[0]]
        else:
            values[node] = computed(node.target, [value(each) for each in node.args], dict(node.kwargs))
    raise AssertionError


def check(
    client: aclgrad.Client,
    loss: Loss,
    given: list[Tensor],
    product: Product | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Compares loss and gradients with PyTorch's."""
    sent = client.program()
    steps = Steps(sent, product)
    expected, truths = (gradients(loss)(*each) for each in (given, map(wide, given)))
    made = translated(steps, loss, given)
    found = sent.run(*(each if isinstance(each, Handle) else cast(steps, each, each.dtype) for each in made))
    for array, result, truth in zip(found, expected, truths, strict=True):
        one = tensor_of(array.copy())
        assert (one.dtype, one.shape) == (result.dtype, result.shape)
        # Results of 16 bits depend on the order of sums, and single ones may be far from each other.
        error, own = ((wide(each) - truth).norm() for each in (one, result))
        assert error <= tolerance * truth.norm() + own, (error, own, truth.norm())


def wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


CLASSES: Final = torch.tensor([1, 0, 2])


def residual(image: Tensor, first: Tensor, second: Tensor, scale: Tensor, shift: Tensor, last: Tensor) -> Tensor:
    """Convolutions, normalised by the batch, with a maximum between them, and a mean of the planes."""
    x = functional.conv2d(image, first, padding=1)
    x = functional.relu(functional.batch_norm(x, None, None, scale, shift, True))
    x = functional.max_pool2d(x, 3, 2, 1)
    x = x + functional.batch_norm(functional.conv2d(x, second, padding=1), None, None, scale, shift, True)
    x = functional.adaptive_avg_pool2d(functional.relu(x), 1).flatten(1)
    return functional.cross_entropy(functional.linear(x, last), CLASSES)


def of_residual() -> list[Tensor]:
    return [drawn(3, 3, 8, 8), drawn(4, 3, 3, 3), drawn(4, 4, 3, 3), drawn(4).abs(), drawn(4), drawn(3, 4)]


def transformer(words: Tensor, table: Tensor, together: Tensor, out: Tensor, wide: Tensor, scale: Tensor) -> Tensor:
    """One layer of a language model, with words as what follows."""
    batch, length = words.shape
    x = functional.embedding(words, table)
    whole = functional.linear(functional.layer_norm(x, [8], scale, scale), together)
    query, key, value = (each.view(batch, length, 2, 4).transpose(1, 2) for each in whole.split(8, -1))
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    x = x + functional.linear(mixed.transpose(1, 2).reshape(batch, length, 8), out)
    hidden = functional.gelu(functional.linear(functional.rms_norm(x, [8], scale), wide), approximate="tanh")
    x = x + functional.silu(functional.linear(hidden, wide.t()))
    scores = functional.linear(x, table)
    return functional.cross_entropy(scores[:, :-1].reshape(-1, 9), words[:, 1:].reshape(-1))


WORDS: Final = torch.tensor([[1, 4, 8, 2, 0], [3, 3, 5, 7, 6]])


def of_transformer() -> list[Tensor]:
    return [WORDS, drawn(9, 8), drawn(24, 8), drawn(8, 8), drawn(16, 8), drawn(8)]


def hourglass(image: Tensor, down: Tensor, up: Tensor, scale: Tensor) -> Tensor:
    """Down and up again, by each operator that resizes, beside what was there."""
    x = functional.group_norm(functional.conv2d(image, down, padding=1), 2, scale, scale)
    small = functional.avg_pool2d(functional.leaky_relu(x, 0.2), 2)
    large = functional.interpolate(small, scale_factor=2) + functional.interpolate(small, size=(8, 8), mode="bilinear")
    both = torch.cat([x, large, functional.conv_transpose2d(small, up, stride=2)], 1)
    both = functional.pad(functional.pad(both, [1, 1, 1, 1]), [1, 0, 1, 0], mode="reflect")
    return functional.binary_cross_entropy(both.sigmoid(), torch.full_like(both, 0.25)) + both.tanh().var()


LOSSES: Final[dict[str, tuple[Loss, Callable[[], list[Tensor]]]]] = {
    "residual": (residual, of_residual),
    "transformer": (transformer, of_transformer),
    "hourglass": (hourglass, lambda: [drawn(2, 3, 8, 8), drawn(4, 3, 3, 3), drawn(4, 4, 2, 2), drawn(4)]),
    "prelu": (lambda x, w: functional.prelu(x, w).square().mean(), lambda: [drawn(2, 4, 3), drawn(4)]),
    "clamp": (lambda x: x.clamp(-1, 1).pow(3).sum(), lambda: [drawn(3, 8)]),
    "amax": (lambda x: x.amax(1).sum() + x.max() - x.amin(0).mean(), lambda: [drawn(3, 8)]),
    "deviation": (lambda x: x.var(1).sum() + x.std(0, keepdim=True).sum(), lambda: [drawn(3, 8)]),
    "norm": (lambda x: functional.normalize(x).pow(3).sum(), lambda: [drawn(3, 8)]),
    "logits": (
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y.sigmoid()),
        lambda: [drawn(3, 8), drawn(3, 8)],
    ),
    "l1": (lambda x, y: functional.l1_loss(x, y) + functional.huber_loss(x, y), lambda: [drawn(3, 8), drawn(3, 8)]),
    "positions": (
        lambda x: (x[:, torch.tensor([0, 2, 2])] * x[1:, 3].sum()).sum() + x[::2, 1:5:2].square().sum(),
        lambda: [drawn(3, 8)],
    ),
    "pixels": (
        lambda x: functional.cross_entropy(x, torch.arange(12).view(2, 2, 3) % 4, ignore_index=0),
        lambda: [drawn(2, 4, 2, 3)],
    ),
    "activations": (
        lambda x: sum(
            each(x).sum()
            for each in (
                functional.elu,
                functional.mish,
                functional.softplus,
                functional.hardswish,
                functional.logsigmoid,
            )
        ),
        lambda: [drawn(3, 8)],
    ),
    "samples": (
        lambda x, y: functional.grid_sample(x, y.tanh(), align_corners=False).square().sum(),
        lambda: [drawn(2, 3, 5, 6), drawn(2, 4, 3, 2)],
    ),
    "minimum": (
        lambda x, y: (torch.minimum(x, y) * (x != y) + torch.where(x > 0, x, 0.0)).sum(),
        lambda: [drawn(3, 8), drawn(3, 8)],
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_gives_what_pytorch_gives(direct: aclgrad.Client, name: str) -> None:
    loss, given = LOSSES[name]
    check(direct, loss, given())


@pytest.mark.parametrize("name", ["residual", "transformer", "hourglass"])
def test_the_host_library_gives_what_pytorch_gives(server: Server, name: str) -> None:
    loss, given = LOSSES[name]
    with aclgrad.Client(server.address) as client:
        check(client, loss, given())


def test_a_step_of_16_bits_has_the_types_of_pytorch(direct: aclgrad.Client) -> None:
    """Parameters of normalisations are float32, as in training."""
    image, first, second, scale, shift, last = of_residual()
    given = [image.bfloat16(), first.bfloat16(), second.bfloat16(), scale, shift, last.bfloat16()]
    check(direct, residual, given, tolerance=1e-2)
    words, *weights = of_transformer()
    check(direct, transformer, [words, *(each.bfloat16() for each in weights)], tolerance=1e-2)


def pooled(image: Tensor) -> Tensor:
    return functional.max_pool2d(image, 3, 2, 1).square().sum()


@pytest.mark.parametrize(
    ("product", "dtype", "operator"),
    [
        ("910B", torch.float32, "with_indices"),
        ("910B", torch.bfloat16, "with_indices"),
        ("950", torch.bfloat16, "with_indices"),
        ("910A", torch.float32, "with_mask"),
        ("910A", torch.float16, "with_mask"),
    ],
)
def test_a_maximum_is_differentiated_as_the_product_keeps_it(product: str, dtype: torch.dtype, operator: str) -> None:
    with serve(product=product) as server, aclgrad.Client(server.target) as client:
        check(client, pooled, [drawn(2, 4, 7, 6, dtype=dtype)], Product(product), 1e-5 if dtype.itemsize > 2 else 1e-2)
        assert {f"max_pool2d_{operator}", f"max_pool2d_{operator}_backward"} <= set(server.calls)


def test_what_only_repeats_is_computed_once(direct: aclgrad.Client) -> None:
    """The gradient of a mean is divided before it is spread, and products spread it."""
    sent = direct.program()
    translated(Steps(sent), lambda x: (x.mean(1, keepdim=True) * 3).square().sum(), [drawn(3, 8)])
    sizes = [line for line in str(sent).splitlines() if "float32[3, 8]" in line.partition("->")[2]]
    assert len(sizes) == 1, str(sent)  # the copy that the test begins with
