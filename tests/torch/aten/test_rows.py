"""The table from ATen's operators to steps: values of the rows that graphs of training steps need.

PyTorch computes the same on the CPU. A server computes by the definitions, and in one test by the host library.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch import Tensor

import aclgrad
from aclgrad.products import Product
from aclgrad.testing import serve
from aclgrad.torch.aten import ROWS, Steps
from aclgrad.torch.aten.steps import cast, type_like
from aclgrad.torch.calls import LocalError, array_of, tensor_of
from tests.judge.torch.running import drawn
from tests.torch.aten.calls import Call, aten, calls, with_views

TOLERANCES: Final = {torch.float32: (2e-5, 2e-5), torch.bfloat16: (1.6e-2, 2e-2)}
DTYPES: Final = list(TOLERANCES)


@pytest.fixture(scope="module")
def direct() -> Iterator[aclgrad.Client]:
    with serve() as server, aclgrad.Client(server.target) as client:
        yield client


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]


def mapped(function: Any, value: Any) -> Any:
    """Returns an argument with the function's results in place of tensors."""
    if isinstance(value, Tensor):
        return function(value)
    return [mapped(function, each) for each in value] if isinstance(value, list) else value


def called(operator: Any, call: Call, function: Any) -> Any:
    _, args, kwargs = call
    return operator(*(mapped(function, each) for each in args), **{k: mapped(function, v) for k, v in kwargs.items()})


def wide(tensor: Tensor) -> Tensor:
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous()


class Given:
    """Makes what rows take of tensors: outputs of steps of floats, and arrays of others."""

    def __init__(self, steps: Steps, *, as_arrays: bool) -> None:
        self._steps = steps
        self._as_arrays = as_arrays

    def __call__(self, tensor: Tensor) -> Any:
        is_spread = tensor.numel() > 1 and set(tensor.stride()) == {0}
        array = array_of(tensor.flatten()[:1].clone() if is_spread else tensor.contiguous())
        if not self._as_arrays and tensor.is_floating_point():
            handle = self._steps("inplace_copy", {"self": type_like(array), "src": array})
            return handle.reshape([1] * tensor.dim()).broadcast_to(tuple(tensor.shape)) if is_spread else handle
        return np.broadcast_to(array.reshape([1] * tensor.dim()), tuple(tensor.shape)) if is_spread else array


def check(client: aclgrad.Client, call: Call, *, as_arrays: bool = False, product: Product | None = None) -> None:
    """Compares what the row's steps give with what PyTorch gives, of 16 bits with what it computes in float32."""
    operator, args, _ = call
    sent = client.program()
    steps = Steps(sent, product)
    made = flat(called(partial(ROWS[operator], steps), call, Given(steps, as_arrays=as_arrays)))
    # Some of PyTorch's kernels take contiguous tensors alone.
    results, truths = (flat(called(operator, call, each)) for each in (Tensor.contiguous, wide))
    is_mask = (
        "_backward" in operator.name() and isinstance(args[-1], tuple) and all(type(each) is bool for each in args[-1])
    )
    mask = args[-1] if is_mask else tuple(each is not None for each in made)
    assert (len(made), [each is not None for each in made]) == (len(results), list(mask))
    wanted = [each for each, is_wanted in enumerate(mask) if is_wanted]
    # Positions are int32 until somebody wants them.
    handles = [cast(steps, made[n], torch.int64) if results[n].dtype == torch.int64 else made[n] for n in wanted]
    for number, array in zip(wanted, run(sent, handles), strict=True):
        found, result = tensor_of(np.array(array)), results[number]
        assert (found.dtype, found.shape) == (result.dtype, result.shape), call
        relative, absolute = TOLERANCES.get(result.dtype, (0, 0))
        told = f"result {number} of {call}".replace("{", "{{").replace("}", "}}") + ": {}"
        torch.testing.assert_close(
            wide(found), wide(truths[number]), rtol=relative, atol=absolute, equal_nan=True, msg=told.format
        )


def run(sent: aclgrad.Program, handles: list[Any]) -> list[Any]:
    """Runs what has steps; the others are arrays that were given."""
    wanted = [each for each in handles if not isinstance(each, np.ndarray)]
    found = iter(sent.run(*wanted) if wanted else [])
    return [each if isinstance(each, np.ndarray) else next(found) for each in handles]


BY_OPERATOR: Final[dict[str, list[Call]]] = defaultdict(list)
for _dtype in DTYPES:
    for _call in calls(_dtype):
        BY_OPERATOR[str(_call[0])].append(_call)


@pytest.mark.parametrize("operator", BY_OPERATOR)
def test_a_row_gives_what_pytorch_gives(direct: aclgrad.Client, operator: str) -> None:
    for call in BY_OPERATOR[operator]:
        check(direct, call, as_arrays=True)
        # Of a step, its statistics have a form of the device's own: a test of both passes has them.
        if call[0] is not aten.native_batch_norm_backward.default:
            check(direct, call)


def test_gradients_may_be_spread(direct: aclgrad.Client) -> None:
    for call in with_views(calls()):
        check(direct, call, as_arrays=call[0] is aten.native_batch_norm_backward.default)


def test_the_gradient_of_softmax_has_the_type_of_its_input(direct: aclgrad.Client) -> None:
    """PyTorch's kernels for a CPU do not round it."""
    grad, x = drawn(3, 8), drawn(3, 8).softmax(1)
    for name, output in (("_softmax_backward_data", x), ("_log_softmax_backward_data", x.log())):
        operator = getattr(aten, name).default
        sent = direct.program()
        (found,) = sent.run(ROWS[operator](Steps(sent), array_of(grad), array_of(output), 1, torch.bfloat16))
        expected = operator(grad, output, 1, torch.float32).bfloat16()
        torch.testing.assert_close(tensor_of(found), expected, rtol=8e-3, atol=1e-3)


CHOSEN: Final = (aten.avg_pool2d_backward, aten.mse_loss_backward, aten.upsample_bilinear2d_backward)


@pytest.mark.parametrize("product", ["910A", "310P", "910_93", "950"])
def test_a_product_may_have_another_operator(product: str) -> None:
    """The 910A lacks gradients of squares and attention; two multiply averages in FLOAT16 and copy no planes."""
    operators = [each.default for each in CHOSEN]
    if product != "310P":
        operators.append(aten.max_pool2d_with_indices_backward.default)
    if product == "910A":
        operators.append(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)  # noqa: SLF001 - ATen's name
    with serve(product=product) as server, aclgrad.Client(server.target) as client:
        for call in calls():
            if call[0] in operators:
                check(client, call, as_arrays=True, product=Product(product))


@pytest.mark.parametrize(
    "shape", [(5, 6), (1, 1, 5, 6), (2, 1, 1, 6), (2, 1, 5, 1), (1, 4, 5, 6), (2, 4, 5, 6)], ids=str
)
def test_attention_takes_masks_of_truth_and_heads_that_share_keys(
    direct: aclgrad.Client, shape: tuple[int, ...]
) -> None:
    """A row that sees no key has the result 0, and no gradient."""
    torch.manual_seed(sum(shape))
    mask = torch.rand(shape) < 0.6
    mask[..., 0, :] = False
    query, grad = drawn(2, 4, 5, 8), drawn(2, 4, 5, 8)
    key, value = drawn(2, 2, 6, 8), drawn(2, 2, 6, 8)
    numbers = (
        torch.where(mask, 0.0, -torch.inf).expand(2, 4, 5, 6) if mask.ndim == 4 else torch.where(mask, 0.0, -torch.inf)
    )
    name = "_scaled_dot_product_flash_attention_for_cpu"
    forward, backward = (getattr(aten, each).default for each in (name, f"{name}_backward"))
    out, logsumexp = forward(query, key, value, attn_mask=numbers)
    expected = out, *backward(grad, query, key, value, out, logsumexp, 0.0, False, attn_mask=numbers)
    given = [array_of(each) for each in (query, key, value)]
    for is_step in (False, True):
        sent = direct.program()
        steps = Steps(sent)
        truth = steps("gt_scalar", {"self": mask.float().numpy()}, other=0.5) if is_step else array_of(mask)
        made = ROWS[forward](steps, *given, attn_mask=truth)
        of = ROWS[backward](steps, array_of(grad), *given, *made, 0.0, False, attn_mask=truth)
        for one, other in zip(sent.run(made[0], *of), expected, strict=True):
            torch.testing.assert_close(tensor_of(np.array(one)), other, rtol=1e-5, atol=1e-6)


X: Final = np.ones((3, 4), np.float32)
INTS: Final = np.arange(12, dtype=np.int64).reshape(3, 4)
IS_ONE: Final = X == 1
HEADS: Final = np.ones((1, 2, 4, 4), np.float32)


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("upsample_nearest1d", (X[None], [6], 1.6), "upsamples 4 cells to 6 by another scale, here 1.6"),
        ("upsample_bilinear2d_backward", (X[None, None], [3, 4], [1, 1, 2, 2], False, 1.4, 2.0), "another scale"),
        ("index.Tensor", (X, [INTS[0], INTS[0]]), "by a mask, or by several indices"),
        ("index_put", (X, [IS_ONE], X, True), "by a mask, or by several indices"),
        ("index_put", (X, [np.array([1, 1])], X[:2]), "positions of which some may be equal"),
        ("scatter.src", (X, 0, np.zeros((2, 1), np.int64), X), "positions of which some may be equal"),
        ("bitwise_and.Tensor", (INTS, INTS), "the bits of integers"),
        ("sum", (INTS,), "adds up integers"),
        ("sign", (INTS,), "the sign of integers"),
        ("add.Tensor", (IS_ONE, IS_ONE), "truth values"),
        ("linalg_vector_norm", (X, 3), "the norm of order 3"),
        ("var.correction", (X[:1], [0]), "too few elements"),
        ("_scaled_dot_product_flash_attention_for_cpu", (HEADS, HEADS, HEADS, 0.5), "with dropout"),
    ],
)
def test_what_no_operators_compute_has_its_reason(
    direct: aclgrad.Client, name: str, args: tuple[Any, ...], reason: str
) -> None:
    packet, _, overload = name.partition(".")
    with pytest.raises(LocalError, match=re.escape(reason)):
        ROWS[getattr(getattr(aten, packet), overload or "default")](Steps(direct.program()), *args)
