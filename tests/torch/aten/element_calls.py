"""Calls of ATen's operators on single elements, on axes, and on views of tensors."""

from collections.abc import Callable
from itertools import product
from typing import Final

import torch
from torch import Tensor

Add = Callable[..., None]
New = Callable[..., Tensor]


def _activations(add: Add, new: New) -> None:
    grad, x = new(3, 8), new(3, 8) * 3
    for threshold in (0, 0.5):
        add("threshold_backward", grad, x, threshold)
    for approximate in ("none", "tanh"):
        add("gelu_backward", grad, x, approximate=approximate)
    add("sigmoid_backward", grad, x.sigmoid())
    add("tanh_backward", grad, x.tanh())
    for name in ("silu", "hardswish", "hardsigmoid", "mish"):
        add(f"{name}_backward", grad, x)
    for name in ("hardshrink", "softshrink"):
        add(f"{name}_backward", grad, x, 0.75)
    add("hardtanh_backward", grad, x, 0, 6)
    add("hardtanh_backward", grad, x, -0.5, float("inf"))
    add("softplus_backward", grad, x, 1, 20)
    add("softplus_backward", grad, x, 2.0, 1.5)
    add("leaky_relu_backward", grad, x, 0.2, False)
    add("elu_backward", grad, 1.0, 1, 1, False, x)
    add("elu_backward", grad, 1.5, 1.05, 0.7, True, x.clamp_min(-1.5))
    add("glu_backward", new(3, 4), x, -1)
    add("glu_backward", new(2, 5), new(4, 5), 0)
    for dim in (0, -1):
        add("_softmax_backward_data", grad, x.softmax(dim), dim, x.dtype)
        add("_log_softmax_backward_data", grad, x.log_softmax(dim), dim, x.dtype)


def _forward(add: Add, new: New) -> None:
    x = torch.cat([new(3, 8) * 3, torch.tensor([[0, -1e-4, 30, -30, 1e-4, 3, -3, 200]]).to(new(1))])
    for numbers in ((), (1.5,), (1.67, 1.05), (1.5, 1.0, 0.7)):
        add("elu", x, *numbers)
    for numbers in ((), (2.0, 1.5), (0.5,)):
        add("softplus", x, *numbers)
    for name in ("mish", "hardsigmoid", "log_sigmoid_forward"):
        add(name, x)
    buffer = torch.ops.aten.log_sigmoid_forward(x)[1]
    add("log_sigmoid_backward", new(4, 8), x, buffer)
    planes = new(2, 4, 3)
    for weight in (new(1, 4, 1), new(1, 1, 1)):
        add("_prelu_kernel", planes, weight)
        add("_prelu_kernel_backward", new(2, 4, 3), planes, weight)
    add("glu", x, 0)
    add("threshold", x, 0.1, 2.0)
    add("_safe_softmax", torch.cat([x, torch.full_like(x, -torch.inf)]), -1)
    add("_safe_softmax", x, 0)


BOOLS: Final = torch.tensor([[True, False, True, False]] * 3), torch.tensor([[True, True, False, False]] * 3)
INTEGERS: Final = torch.tensor([[3, -1, 4, 0], [0, 5, -9, 0], [1, 1, 0, 2]])


def _truths(add: Add, new: New) -> None:
    x, (a, b) = new(3, 4), BOOLS
    gaps = torch.where(x > 1, torch.nan, x)
    for name in ("eq", "ne", "gt", "lt", "ge", "le"):
        add(f"{name}.Tensor", gaps, torch.where(a, gaps, 0.5))
        add(f"{name}.Tensor", INTEGERS, INTEGERS.abs())
        add(f"{name}.Scalar", gaps, 0.3)
        add(f"{name}.Scalar", INTEGERS, 1)
        add(f"{name}.Scalar", a, 0)
    for name in ("and", "or", "xor"):
        add(f"logical_{name}", a, b)
        add(f"logical_{name}", INTEGERS, x)
        add(f"bitwise_{name}.Tensor", a, b)
    for name in ("logical_not", "bitwise_not"):
        add(name, a)
    add("logical_not", INTEGERS)
    add("isnan", gaps)
    add("where.self", a, x, new(4))
    add("where.ScalarSelf", a, 0.3, x)
    add("where.ScalarSelf", a, 0.3, INTEGERS)
    add("where.ScalarOther", a, x, 1)
    add("where.ScalarOther", a, b, 2)
    add("where.Scalar", a, 0.3, 1.5)
    add("where.Scalar", a, 3, 1)
    add("masked_fill.Scalar", x, a, -torch.inf)


def _numbers(add: Add, new: New) -> None:
    x, y, (a, b) = new(3, 4), new(3, 4), BOOLS
    for one, other in ((a, x), (x, a), (INTEGERS, a)):
        for name in ("add", "mul"):
            add(f"{name}.Tensor", one, other)
        add("add.Tensor", one, other, alpha=2)
    add("div.Tensor", a, x.abs() + 1)
    add("div.Tensor", x, INTEGERS.abs() + 1)
    add("mul.Tensor", a, b)
    for number in (3, 0.5):
        for name in ("add", "mul", "div"):
            add(f"{name}.Tensor", a, number)
    add("mul.Tensor", a, True)
    add("mul.Tensor", x, INTEGERS)
    add("sub.Scalar", x, 0.5, 2)
    add("square", x)
    for exponent in (1.0, 2, 0.5):
        add("pow.Tensor_Scalar", x.abs(), exponent)
    for weight in (0.3, 0.8, -2.0):
        add("lerp.Scalar", x, y, weight)
    add("lerp.Tensor", x, y, torch.rand(3, 4).to(x))
    small = [0.0, 1e-9, -1e-7, 1e-3, -0.5, 1.0, 30.0, torch.inf, torch.nan]
    add("log1p", torch.tensor([*small, 1e30]).to(x))
    add("expm1", torch.tensor([*small, 3.0, -30.0, -torch.inf]).to(x))
    add("xlogy.Tensor", torch.tensor([0.0, 0.0, 1.0, 2.0]).to(x), torch.tensor([0.0, 2.0, 0.5, 3.0]).to(x))
    for name in ("sign", "sgn"):
        add(name, torch.tensor([0.0, -0.0, 2.0, -3.0]).to(x))
    for bounds in ((x, None), (None, x), (x - 1, x + 1)):
        add("clamp.Tensor", y, *bounds)


def _reductions(add: Add, new: New) -> None:
    x = new(2, 3, 4)
    for name in ("amin", "amax"):
        add(name, x, [1], True)
    add("min", x)
    for name in ("max.dim", "min.dim"):
        add(name, x, 1, True)
    add("sum", BOOLS[0])
    add("sum.dim_IntList", BOOLS[0], [1], True)
    for name in ("var", "std", "var_mean"):
        add(f"{name}.correction", x)
        for keepdim in (False, True):
            add(f"{name}.correction", x, [0, 2], correction=0, keepdim=keepdim)
    for order in (1, 2, torch.inf):
        add("linalg_vector_norm", x, order)
        add("linalg_vector_norm", x, order, [-1], True)


def _moved(add: Add, new: New) -> None:
    x = new(3, 4)
    for repeats in ((2, 1), (1, 3), (2, 2, 3), (1, 1)):
        add("repeat", x, repeats)
    add("repeat", BOOLS[0], (2, 2))
    for shifts, dims in (((1,), (0,)), ((-5, 2), (1, 0)), ((3,), ()), ((4,), (1,))):
        add("roll", x, shifts, dims)
    for name, diagonal in product(("tril", "triu"), (0, 1, -1)):
        add(name, new(2, 3, 4), diagonal)
    add("tril", BOOLS[0])
    add("fill.Tensor", x, torch.tensor(2.5))
    index = torch.tensor([[0, 2, 1, 0]])
    add("scatter.src", torch.zeros_like(x), 0, index, new(1, 4))
    add("scatter.src", x, 0, index, new(2, 4))
    add("scatter.src", x, -1, torch.tensor([[1, 3], [0, 2]]), new(2, 2))
    add("scatter.value", x, 0, index, 0.7)
    add("scatter.value", x, 1, torch.tensor([[1, 1], [0, 2]]), 0.7)
    add("index_put", x, [torch.tensor([2, 0])], new(2, 4))


PARTS: Final = (_activations, _forward, _truths, _numbers, _reductions, _moved)
