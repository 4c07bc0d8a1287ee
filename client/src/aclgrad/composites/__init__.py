"""Gradients that take several operators, as steps of a program: of linear layers, products, einsum and attention.

    program = client.program()
    found = aclgrad.composites.linear_backward(program, grad_output, input, weight)
    grad_input, grad_weight, grad_bias = program.run(*found)

Operands are arrays, or handles of the same program. They are sent once, transposed ones as views; gradients of
broadcast operands are summed to their size on the server. Each function returns a handle for each gradient, shaped as
its operand; None for an unwanted one. `DEFINITIONS` has the same gradients in float64, computed differently.
"""

from aclgrad.composites.attention import AttentionGradients, scaled_dot_product_attention_backward
from aclgrad.composites.definitions import DEFINITIONS
from aclgrad.composites.einsum import einsum_backward
from aclgrad.composites.products import (
    AddmmGradients,
    LinearGradients,
    MatmulGradients,
    addmm_backward,
    bmm_backward,
    linear_backward,
    matmul_backward,
)

__all__ = [
    "DEFINITIONS",
    "AddmmGradients",
    "AttentionGradients",
    "LinearGradients",
    "MatmulGradients",
    "addmm_backward",
    "bmm_backward",
    "einsum_backward",
    "linear_backward",
    "matmul_backward",
    "scaled_dot_product_attention_backward",
]
