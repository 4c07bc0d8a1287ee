"""The table of products of matrices: calls of PyTorch's functions, and the composites that have their gradients.

PyTorch's own function in float64 says what is right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .table import grad_output_of, random

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Product:
    """A function by name, the shapes of its tensors, and the composites that are sent, the last one first."""

    function: str
    shapes: tuple[tuple[int, ...], ...]
    composites: tuple[str, ...]
    args: tuple[Any, ...] = ()
    """They precede the tensors."""
    options: dict[str, Any] = field(default_factory=dict)
    changed: Function | None = None
    """Makes another layout of the first tensor."""

    def __str__(self) -> str:
        given = [
            *map(repr, self.args),
            *map(str, self.shapes),
            *(f"{name}={each}" for name, each in self.options.items()),
        ]
        return f"{self.function}({', '.join(given)})" + ("-strided" if self.changed else "")

    def leaves(self, dtype: torch.dtype = torch.float32, needed: Sequence[bool] = (True,) * 4) -> list[Tensor]:
        pairs = enumerate(zip(self.shapes, needed, strict=False))
        return [random(*shape, seed=seed).to(dtype).requires_grad_(is_needed) for seed, (shape, is_needed) in pairs]

    def bound(self, function: Function | None = None, **more: Any) -> Function:
        """Returns the function of the tensors alone, by default PyTorch's."""
        named = function or getattr(functional, self.function, None) or getattr(torch, self.function)

        def of_tensors(first: Tensor, *others: Tensor) -> Tensor:
            return named(*self.args, self.changed(first) if self.changed else first, *others, **self.options, **more)

        return of_tensors


def of(function: str, composite: str, *shapes: tuple[int, ...], **more: Any) -> Product:
    return Product(function, shapes, (composite,), **more)


def einsum(equation: str, *shapes: tuple[int, ...], calls: int = 1) -> Product:
    return Product("einsum", shapes, ("matmul_backward",) * calls, (equation,))


TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
FACTORS = {"beta": 0.5, "alpha": -2.0}
PRODUCTS = (
    of("linear", "linear_backward", (5, 3), (4, 3), (4,)),
    of("linear", "linear_backward", (2, 5, 3), (4, 3), (4,)),
    of("linear", "linear_backward", (2, 2, 5, 3), (4, 3)),
    of("linear", "linear_backward", (3,), (4, 3), (4,)),
    of("linear", "linear_backward", (5, 2, 3), (4, 3), (4,), changed=lambda each: each.transpose(0, 1)),
    of("linear", "matmul_backward", (5, 3), (3,)),
    of("linear", "addmm_backward", (5, 3), (4, 3), (1,)),
    of("matmul", "matmul_backward", (5, 3), (3, 4)),
    of("matmul", "matmul_backward", (3,), (3,)),
    of("matmul", "matmul_backward", (5, 3), (3,)),
    of("matmul", "matmul_backward", (3,), (3, 4)),
    of("matmul", "matmul_backward", (2, 5, 3), (3, 4)),
    of("matmul", "matmul_backward", (2, 5, 3), (3,)),
    of("matmul", "matmul_backward", (3,), (2, 3, 4)),
    of("matmul", "linear_backward", (5, 3), (2, 2, 3, 4)),
    of("matmul", "matmul_backward", (2, 3, 5, 3), (2, 3, 3, 4)),
    of("matmul", "matmul_backward", (2, 3, 5), (2, 3, 4), changed=lambda each: each.mT),
    of("mm", "matmul_backward", (5, 3), (3, 4)),
    of("mm", "matmul_backward", (5, 3), (5, 4), changed=lambda each: each.mT),
    of("bmm", "matmul_backward", (2, 5, 3), (2, 3, 4)),
    of("mv", "matmul_backward", (5, 3), (3,)),
    of("dot", "matmul_backward", (5,), (5,)),
    of("outer", "matmul_backward", (5,), (4,)),
    of("addmm", "addmm_backward", (5, 4), (5, 3), (3, 4)),
    of("addmm", "addmm_backward", (4,), (5, 3), (3, 4), options=FACTORS),
    of("addmm", "addmm_backward", (5, 1), (5, 3), (3, 4), options={"beta": 0}),
    of("baddbmm", "addmm_backward", (2, 5, 4), (2, 5, 3), (2, 3, 4)),
    of("baddbmm", "addmm_backward", (1, 4), (2, 5, 3), (2, 3, 4), options=FACTORS),
    of("addbmm", "addmm_backward", (5, 4), (2, 5, 3), (2, 3, 4), options=FACTORS),
    einsum("bij,bjk->bik", (2, 5, 3), (2, 3, 4)),
    einsum("bhid,bhjd->bhij", (2, 2, 5, 3), (2, 2, 4, 3)),
    einsum("b...i,oi->b...o", (2, 5, 3), (4, 3)),
    einsum("ij,jk", (5, 3), (3, 4)),
    einsum("ec,dca->ade", (2, 4), (3, 4, 5)),
    einsum("eb,cbd->de", (3, 2), (3, 2, 4)),
    einsum("ij,ij->", (5, 3), (5, 3)),
    einsum("bd,d->b", (1, 4), (4,)),
    einsum("bi,bi,bij->bj", (2, 3), (2, 3), (2, 3, 4)),
    einsum("ij,jk,kl->il", (3, 4), (4, 5), (5, 3), calls=2),
)
APART = (
    of("matmul", "matmul_backward", (2, 1, 5, 3), (3, 3, 4)),
    Product("bilinear", ((5, 3), (5, 2), (4, 3, 2), (4,)), ("linear_backward", "matmul_backward")),
    Product("bilinear", ((2, 5, 3), (2, 5, 2), (4, 3, 2)), ("linear_backward", "matmul_backward")),
)
"""Those that save other tensors than PyTorch's own."""
EMPTY = (
    of("mm", "linear_backward", (5, 0), (0, 4)),
    of("mm", "matmul_backward", (0, 3), (3, 4)),
    of("bmm", "matmul_backward", (0, 5, 3), (0, 3, 4)),
    of("bmm", "matmul_backward", (2, 5, 0), (2, 0, 4)),
    of("linear", "linear_backward", (0, 3), (4, 3), (4,)),
    of("linear", "linear_backward", (5, 0), (4, 0), (4,)),
    of("linear", "linear_backward", (5, 3), (0, 3), (0,)),
    of("matmul", "matmul_backward", (2, 0, 3), (3, 4)),
    of("matmul", "matmul_backward", (2, 1, 5, 0), (3, 0, 4)),
    of("matmul", "matmul_backward", (2, 4, 0), (2, 0, 3)),
    of("matmul", "matmul_backward", (1, 2, 0, 5), (1, 2, 5, 0)),
    of("linear", "linear_backward", (2, 3, 0), (4, 0), (4,)),
    of("linear", "linear_backward", (3, 2, 0), (4, 0), (4,), changed=lambda each: each.transpose(0, 1)),
    of("addmm", "addmm_backward", (5, 4), (5, 0), (0, 4), options=FACTORS),
    of("dot", "matmul_backward", (0,), (0,)),
)
ALL = (*PRODUCTS, *APART, *EMPTY)


def gradients(function: Function, leaves: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Returns the output, and the gradients of the leaves that need one."""
    output = function(*leaves)
    wanted = [each for each in leaves if each.requires_grad]
    return output.detach(), list(torch.autograd.grad(output, wanted, grad_output_of(output)))


def exact(product: Product, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Returns the gradients in float64 of leaves of any dtype."""
    wide = [each.detach().double().requires_grad_(each.requires_grad) for each in leaves]
    output = product.bound()(*wide)
    grad_output = grad_output_of(output.detach().to(leaves[0].dtype)).double()
    return list(torch.autograd.grad(output, [each for each in wide if each.requires_grad], grad_output))


def close(found: Any, expected: Any, dtype: torch.dtype = torch.float32) -> None:
    error = TOLERANCES[dtype]
    torch.testing.assert_close(found, [each.to(dtype) for each in expected], rtol=error, atol=error)
