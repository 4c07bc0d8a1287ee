"""One method for each operator. Generated from the operator table by `make generate`; do not edit."""

from abc import ABC, abstractmethod
from typing import TypeVar

from numpy.typing import ArrayLike

from aclgrad._calls import Array, Call, execute_call

_Result = TypeVar("_Result")


class OperatorMethods(ABC):
    """The operators as methods; `timeout_s` overrides the client's time limit for one call."""

    @abstractmethod
    def _run(self, call: Call[_Result], timeout_s: float | None) -> _Result:
        """Sends the call and returns what its reply says."""

    def adaptive_avg_pool2d_backward(
        self, grad_output: ArrayLike, input: ArrayLike | tuple[int, ...], *, timeout_s: float | None = None
    ) -> Array:
        """Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.

        Output cell (i, j) averaged the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike; each of these
        cells receives grad_output[i, j] divided by their number, and overlapping windows add up (PyTorch:
        aten::_adaptive_avg_pool2d_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW); any oH and oW.
                bfloat16, float16, float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). A tuple of sizes stands for it; its dtype is then
                that of the arrays.

        Returns: The gradient of `self`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs = {"grad_output": grad_output, "self": input}
        return self._run(execute_call("adaptive_avg_pool2d_backward", inputs, {}), timeout_s)


class AsyncOperatorMethods(ABC):
    """The operators as methods; `timeout_s` overrides the client's time limit for one call."""

    @abstractmethod
    async def _run(self, call: Call[_Result], timeout_s: float | None) -> _Result:
        """Sends the call and returns what its reply says."""

    async def adaptive_avg_pool2d_backward(
        self, grad_output: ArrayLike, input: ArrayLike | tuple[int, ...], *, timeout_s: float | None = None
    ) -> Array:
        """Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.

        Output cell (i, j) averaged the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike; each of these
        cells receives grad_output[i, j] divided by their number, and overlapping windows add up (PyTorch:
        aten::_adaptive_avg_pool2d_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW); any oH and oW.
                bfloat16, float16, float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). A tuple of sizes stands for it; its dtype is then
                that of the arrays.

        Returns: The gradient of `self`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs = {"grad_output": grad_output, "self": input}
        return await self._run(execute_call("adaptive_avg_pool2d_backward", inputs, {}), timeout_s)
