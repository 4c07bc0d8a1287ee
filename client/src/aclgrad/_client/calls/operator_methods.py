"""One method for each operator. Generated from the operator table by `make generate`; do not edit."""

from __future__ import annotations  # `help` shows the names of unions, and not their members

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from aclgrad._client.calls.arguments import Input, Inputs
from aclgrad._client.calls.arrays import Array, TensorLike
from aclgrad._client.calls.destination import Output, Outputs
from aclgrad._client.calls.handles import Handle
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad.operators.attributes import AttributeLike
from aclgrad.outputs import (
    BatchNormBackwardOutputs,
    BatchNormOutputs,
    ConvolutionBackwardOutputs,
    FlashAttentionScoreGradOutputs,
    FlashAttentionScoreGradV2Outputs,
    FlashAttentionScoreOutputs,
    FlashAttentionScoreV2Outputs,
    GridSampler2DBackwardOutputs,
    GridSampler3DBackwardOutputs,
    GroupNormBackwardOutputs,
    GroupNormOutputs,
    LayerNormBackwardOutputs,
    LayerNormOutputs,
    MaxPool2dWithIndicesOutputs,
    MaxPool2dWithMaskOutputs,
    NLLLossOutputs,
    PreluBackwardOutputs,
    RmsNormGradOutputs,
    RmsNormOutputs,
    RotaryPositionEmbeddingGradOutputs,
)
from aclgrad.tensors import DType

Result = TypeVar("Result")
Ints = Sequence[int] | np.ndarray[Any, Any]
DataType = DType | str | np.dtype[Any] | type[Any]
"""A data type of the wire, by its name too, or numpy's."""


class OperatorMethods(ABC, Generic[Result]):
    """The operators as methods; `timeout_s` is the time limit of one call, None for no limit, by default the client's.

    With `out`, the output is written to that array. A method returns the output, an awaitable of it, its position in a
    batch or its handle in a program, depending on the subclass. An operator with several outputs returns a NamedTuple,
    with None for those that are not among the wanted `outputs`; `out` is a tuple like that then.

    Of an input that may be a tuple of sizes, only the shape is sent, unless the server needs the values. The tuple has
    the dtype of the first array.
    """

    @abstractmethod
    def execute(
        self,
        name: str,
        inputs: Inputs,
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Result:
        """Returns the output of any operator of the server, by its wire names.

        An input is anything that numpy can read, or a CPU tensor of another library; it must not change before the call
        has ended. A tuple of sizes as an input sends the shape alone; its dtype is that of the first array. If the
        server needs the values, it raises InputValuesRequiredError.

        Of an operator with several outputs it returns a NamedTuple. `outputs` names those that are wanted, by default
        all; others are None there, and neither computed where that saves work nor sent.

        With `out`, a writable array or CPU tensor of the output's dtype and shape, it is written there, and that
        is what is returned. After an error, or if the caller leaves before the call has ended, `out` may hold a part of
        the output; a call that was cancelled may still write to it for a moment. For several outputs it is a
        tuple of these, with None for an output that is not wanted or goes to a new array.
        """

    def abs(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the absolute values.

        out = |self|; the smallest integer is its own (PyTorch: aten::abs).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("abs", inputs, {}, timeout_s=timeout_s, out=out)

    def adaptive_avg_pool2d(
        self, input: TensorLike, output_size: Ints, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Averages the windows that divide a plane into so many rows and columns.

        Output cell (i, j) averages the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike (PyTorch:
        aten::_adaptive_avg_pool2d).

        Args:
            input: The tensor, shape (N, C, H, W) or (C, H, W). bfloat16, float16, float32 (fewer on some products).
            output_size: Height and width of the result.

        Returns: The averages, shape (N, C, oH, oW) or (C, oH, oW), dtype of `input`.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("adaptive_avg_pool2d", inputs, {"output_size": output_size}, timeout_s=timeout_s, out=out)

    def adaptive_avg_pool2d_backward(
        self, grad_output: TensorLike, input: Input, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.

        Output cell (i, j) averaged the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike; each of these
        cells receives grad_output[i, j] divided by their number, and overlapping windows add up (PyTorch:
        aten::_adaptive_avg_pool2d_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW); any oH and oW.
                bfloat16, float16, float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). A tuple of sizes will do.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("adaptive_avg_pool2d_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def adaptive_avg_pool3d_backward(
        self, grad_output: TensorLike, input: Input, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.

        Output cell (i, j, k) averaged the slices floor(i*D/oD) up to ceil((i+1)*D/oD), and the rows and columns alike;
        each of these cells receives grad_output[i, j, k] divided by their number, and overlapping windows add up
        (PyTorch: aten::_adaptive_avg_pool3d_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oD, oH, oW) or (C, oD, oH, oW); float64 for one
                window. bfloat16, float16, float32, float64 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, D, H, W) or (C, D, H, W); only its shape and dtype matter.
                bfloat16, float16, float32, float64 (fewer on some products). A tuple of sizes will do.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("adaptive_avg_pool3d_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def add(
        self,
        input: TensorLike,
        other: TensorLike,
        alpha: float = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds up two tensors, of which the second one is multiplied by a number.

        out = self + alpha * other (PyTorch: aten::add.Tensor).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, float16, float32, int32, int64 (fewer on some
                products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, bool, float16, float32,
                int32, int64 (fewer on some products).
            alpha: What other is multiplied by: an integer for integers.

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("add", inputs, {"alpha": alpha}, timeout_s=timeout_s, out=out)

    def addmm(
        self,
        input: TensorLike,
        mat1: TensorLike,
        mat2: TensorLike,
        beta: float = 1.0,
        alpha: float = 1.0,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Multiplies two matrices and adds a third.

        out = beta * self + alpha * (mat1 @ mat2) (PyTorch: aten::addmm). A factor of 0 drops its part, also if that is
        not a number.

        Args:
            input: The addend: the product's shape, or one that broadcasts to it; its dtype. bfloat16, float16, float32
                (fewer on some products).
            mat1: A matrix, the left operand. bfloat16, float16, float32 (fewer on some products).
            mat2: A matrix, the right operand, with the dtype of the left one. bfloat16, float16, float32 (fewer on some
                products).
            beta: The factor of self.
            alpha: The factor of the product.
            cube_math_type: How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in
                FLOAT16, 3 in HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A
                server on a CPU always multiplies in full.

        Returns: The sum, with the shape of the product.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "mat1": mat1, "mat2": mat2}
        return self.execute(
            "addmm",
            inputs,
            {"beta": beta, "alpha": alpha, "cube_math_type": cube_math_type},
            timeout_s=timeout_s,
            out=out,
        )

    def adds(
        self,
        input: TensorLike,
        other: float,
        alpha: float = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds a number to a tensor; integers and a float make float32.

        out = self + alpha * other (PyTorch: aten::add.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.
            alpha: What other is multiplied by: an integer for integers.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("adds", inputs, {"other": other, "alpha": alpha}, timeout_s=timeout_s, out=out)

    def amax(
        self,
        input: TensorLike,
        dim: int | Ints = (),
        keep_dim: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the largest elements of a tensor along some of its axes.

        out = the largest element of self along dim, NaN if there is one (PyTorch: aten::amax).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            dim: The axes, each once; a negative one counts from the last. An empty list for all.
            keep_dim: Keeps the axes, with a size of 1.

        Returns: The results: self without the axes, or with a size of 1 for each.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("amax", inputs, {"dim": dim, "keep_dim": keep_dim}, timeout_s=timeout_s, out=out)

    def avg_pool2d(
        self,
        input: TensorLike,
        kernel_size: int | Ints,
        strides: int | Ints = (),
        paddings: int | Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int = 0,
        cube_math_type: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Averages each window of a plane.

        out[n, c, oh, ow] = the sum of self[n, c] over the window, divided by `divisor_override` or, if that is 0, by
        the number of the window's cells, padding included unless `count_include_pad` is false (PyTorch:
        aten::avg_pool2d).

        Args:
            input: The tensor, shape (N, C, H, W) or (C, H, W). bfloat16, float16, float32 (fewer on some products).
            kernel_size: Height and width of a window.
            strides: Distance of the windows; empty for the size of the kernel.
            paddings: Cells added on both sides, at most half the kernel.
            ceil_mode: Rounds the pooled size up, so that a last window may reach beyond the padded plane.
            count_include_pad: Counts padding among the cells of a window.
            divisor_override: The divisor of every window; 0 for the number of its cells.
            cube_math_type: How precisely matrix units may compute: 0 as the dtype, 1 less than float32, 2 in FLOAT16, 3
                in HFLOAT32.

        Returns: The averages, shape (N, C, oH, oW) or (C, oH, oW), dtype of `input`.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "avg_pool2d",
            inputs,
            {
                "kernel_size": kernel_size,
                "strides": strides,
                "paddings": paddings,
                "ceil_mode": ceil_mode,
                "count_include_pad": count_include_pad,
                "divisor_override": divisor_override,
                "cube_math_type": cube_math_type,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def avg_pool2d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int = 0,
        cube_math_type: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.

        Every cell of the window of pooled cell (i, j) receives grad_output[i, j] divided by `divisor_override`, or, if
        that is 0, by the number of the window's cells, padding included unless `count_include_pad` is false;
        overlapping windows add up (PyTorch: aten::avg_pool2d_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW). bfloat16, float16,
                float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). A tuple of sizes will do.
            kernel_size: Height and width of a window.
            stride: Distance of the windows; empty for the size of the kernel.
            padding: Cells added on both sides, at most half the kernel.
            ceil_mode: Rounds the pooled size up, so that a last window may reach beyond the padded plane.
            count_include_pad: Counts padding among the cells of a window.
            divisor_override: The divisor of every window; 0 for the number of its cells.
            cube_math_type: How precisely matrix units may compute: 0 as the dtype, 1 less than float32, 2 in FLOAT16, 3
                in HFLOAT32.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute(
            "avg_pool2d_backward",
            inputs,
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "ceil_mode": ceil_mode,
                "count_include_pad": count_include_pad,
                "divisor_override": divisor_override,
                "cube_math_type": cube_math_type,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def batch_mat_mul(
        self,
        input: TensorLike,
        mat2: TensorLike,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Multiplies the matrices of two batches, one by one.

        out[b] = self[b] @ mat2[b]; one batch may have a single matrix (PyTorch: aten::bmm).

        Args:
            input: A batch of matrices (B, rows, columns), the left operand. bfloat16, float16, float32 (fewer on some
                products).
            mat2: A batch of matrices (B, rows, columns), the right operand, with the dtype of the left one. bfloat16,
                float16, float32 (fewer on some products).
            cube_math_type: How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in
                FLOAT16, 3 in HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A
                server on a CPU always multiplies in full.

        Returns: The product, with the dtype of the operands.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "mat2": mat2}
        return self.execute("batch_mat_mul", inputs, {"cube_math_type": cube_math_type}, timeout_s=timeout_s, out=out)

    @overload
    def batch_norm(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        input: TensorLike,
        running_mean: TensorLike,
        running_var: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        momentum: float = 0.1,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> BatchNormOutputs: ...

    @overload
    def batch_norm(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        input: TensorLike,
        running_mean: TensorLike,
        running_var: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        momentum: float = 0.1,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, BatchNormOutputs]: ...

    @overload
    def batch_norm(
        self: OperatorMethods[int],
        input: TensorLike,
        running_mean: TensorLike,
        running_var: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        momentum: float = 0.1,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def batch_norm(
        self,
        input: TensorLike,
        running_mean: TensorLike,
        running_var: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        momentum: float = 0.1,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Normalises the channels of a batch by their mean and deviation.

        output = (input - mean) / sqrt(var + eps) * weight + bias, with the mean and the variance of each channel of the
        batch when training, running_mean and running_var otherwise (PyTorch:
        aten::_native_batch_norm_legit_functional).

        Args:
            input: The tensor, shape (N, C) or (N, C, ...). bfloat16, float16, float32 (fewer on some products).
            weight: What the normalised elements are multiplied by, shape (C,): float32, or the dtype of input. Left
                out: ones. bfloat16, float16, float32 (fewer on some products).
            bias: What is added to them, shape (C,): float32, or the dtype of input. Left out: zeros. bfloat16, float16,
                float32 (fewer on some products).
            running_mean: The mean so far, shape (C,): float32, or the dtype of input. bfloat16, float16, float32 (fewer
                on some products).
            running_var: The variance so far, with the shape and dtype of running_mean. bfloat16, float16, float32
                (fewer on some products).
            training: Whether the statistics are those of the batch.
            momentum: The share of the batch in the new running statistics; rounded to float32.
            eps: What is added to each variance; rounded to float32.

        Returns:
            output: The normalised tensor, with the shape and dtype of input.
            new_running_mean: running_mean * (1 - momentum) + mean * momentum; running_mean without training.
            new_running_var: running_var * (1 - momentum) + unbiased variance * momentum; running_var without training.
            save_mean: The mean of each channel of the batch, shape (C,), float32; (0,) without training.
            save_invstd: What batch_norm_backward takes in a later step of a program, and nobody else gets.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "input": input,
            "weight": weight,
            "bias": bias,
            "running_mean": running_mean,
            "running_var": running_var,
        }
        return self.execute(
            "batch_norm",
            inputs,
            {"training": training, "momentum": momentum, "eps": eps},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def batch_norm_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        running_mean: TensorLike | None = None,
        running_var: TensorLike | None = None,
        save_mean: TensorLike | None = None,
        save_invstd: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> BatchNormBackwardOutputs: ...

    @overload
    def batch_norm_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        running_mean: TensorLike | None = None,
        running_var: TensorLike | None = None,
        save_mean: TensorLike | None = None,
        save_invstd: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, BatchNormBackwardOutputs]: ...

    @overload
    def batch_norm_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        running_mean: TensorLike | None = None,
        running_var: TensorLike | None = None,
        save_mean: TensorLike | None = None,
        save_invstd: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def batch_norm_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        training: bool,
        weight: TensorLike | None = None,
        running_mean: TensorLike | None = None,
        running_var: TensorLike | None = None,
        save_mean: TensorLike | None = None,
        save_invstd: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Computes the gradients of batch normalisation: of its input, its weight and its bias.

        With invstd = save_invstd and mean = save_mean when training, invstd = 1 / sqrt(running_var + eps) and mean =
        running_mean otherwise, xhat = (input - mean) * invstd, and sums over all but the channels: grad_bias =
        sum(grad_output), grad_weight = sum(grad_output * xhat), grad_input = weight * invstd * grad_output, and when
        training weight * invstd * (grad_output - (grad_bias + xhat * grad_weight) / n), with n elements in a channel
        (PyTorch: aten::native_batch_norm_backward).

        Args:
            grad_output: The gradient of the result, shape (N, C) or (N, C, ...). bfloat16, float16, float32 (fewer on
                some products).
            input: The tensor that was normalised, shape of `grad_output`. bfloat16, float16, float32 (fewer on some
                products).
            weight: The factor of each channel, shape (C,), float32 or, but on the 950, of the input's dtype; left out:
                ones. bfloat16, float16, float32 (fewer on some products).
            running_mean: The mean that was subtracted without `training`, shape (C,), float32 or of the input's dtype.
                bfloat16, float16, float32 (fewer on some products).
            running_var: The variance that was divided by without `training`, with the shape and dtype of
                `running_mean`. bfloat16, float16, float32 (fewer on some products).
            save_mean: The mean of each channel of the batch, shape (C,), as the forward pass with `training` saved it.
                float32 (fewer on some products).
            save_invstd: The reciprocal 1 / sqrt(var + eps) of each channel of the batch, shape (C,), as PyTorch on a
                CPU saves it. On all products but the 950, CANN's own forward pass saves the variance under this name:
                do not send that. float32 (fewer on some products).
            training: Whether the forward pass used the statistics of the batch, through which the gradient then also
                goes.
            eps: What the forward pass added to the variance, as float32.

        Returns:
            grad_input: The gradient of `input`, with its shape and dtype.
            grad_weight: The gradient of `weight`, shape (C,), float32.
            grad_bias: The gradient of the bias, shape (C,), float32.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "input": input,
            "weight": weight,
            "running_mean": running_mean,
            "running_var": running_var,
            "save_mean": save_mean,
            "save_invstd": save_invstd,
        }
        return self.execute(
            "batch_norm_backward",
            inputs,
            {"training": training, "eps": eps},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def binary_cross_entropy_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike | None = None,
        reduction: int = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the binary cross entropy of probabilities.

        out = grad_output * weight * (self - target) / max(self * (1 - self), 1e-12) (PyTorch:
        aten::binary_cross_entropy_backward); divided by the number of elements of self if the reduction is 1

        Args:
            grad_output: The gradient of the loss, broadcast to self: one element, or more. bfloat16, float16, float32
                (fewer on some products).
            input: What the loss was computed of, of any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            weight: The weight of each element, broadcast to self; 1 without it. bfloat16, float16, float32 (fewer on
                some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "target": target, "weight": weight}
        return self.execute(
            "binary_cross_entropy_backward", inputs, {"reduction": reduction}, timeout_s=timeout_s, out=out
        )

    def binary_cross_entropy_with_logits(
        self,
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike | None = None,
        pos_weight: TensorLike | None = None,
        reduction: int = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the binary cross entropy of logits.

        With p = pos_weight: out = weight * (p * target * log(1 + exp(-self)) + (1 - target) * log(1 + exp(self))); then
        the mean if the reduction is 1, or the sum if it is 2 (PyTorch: aten::binary_cross_entropy_with_logits).

        Args:
            input: What is compared with the target. Any shape. bfloat16, float16, float32 (fewer on some products).
            target: The targets, from 0 to 1, with the shape of self. bfloat16, float16, float32 (fewer on some
                products).
            weight: The weight of each element, broadcast to self; 1 without it. bfloat16, float16, float32 (fewer on
                some products).
            pos_weight: The weight of positive targets, broadcast to self; 1 without it. bfloat16, float16, float32
                (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.

        Returns: The losses, with the shape and dtype of self; their mean or sum has the shape ().

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "target": target, "weight": weight, "pos_weight": pos_weight}
        return self.execute(
            "binary_cross_entropy_with_logits", inputs, {"reduction": reduction}, timeout_s=timeout_s, out=out
        )

    def binary_cross_entropy_with_logits_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike | None = None,
        pos_weight: TensorLike | None = None,
        reduction: int = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the binary cross entropy of logits.

        With p = pos_weight: out = grad_output * weight * ((p * target + 1 - target) * sigmoid(self) - p * target)
        (PyTorch: the gradient of aten::binary_cross_entropy_with_logits); divided by the number of elements of self if
        the reduction is 1

        Args:
            grad_output: The gradient of the loss, broadcast to self: one element, or more. bfloat16, float16, float32
                (fewer on some products).
            input: What the loss was computed of, of any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            weight: The weight of each element, broadcast to self; 1 without it. bfloat16, float16, float32 (fewer on
                some products).
            pos_weight: The weight of positive targets, broadcast to self; 1 without it. bfloat16, float16, float32
                (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "self": input,
            "target": target,
            "weight": weight,
            "pos_weight": pos_weight,
        }
        return self.execute(
            "binary_cross_entropy_with_logits_backward", inputs, {"reduction": reduction}, timeout_s=timeout_s, out=out
        )

    def cat(
        self, tensors: Sequence[TensorLike], dim: int = 0, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Joins tensors along an axis.

        out = the tensors one after the other along dim, in the type that all are promoted to; one of shape (0,) count
        for nothing (PyTorch: aten::cat).

        Args:
            tensors: The tensors, of one shape but along dim. bfloat16, bool, float16, float32, int32, int64, int8,
                uint8 (fewer on some products).
            dim: The axis; a negative one counts from the last.

        Returns: The joined tensor.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"tensors": tensors}
        return self.execute("cat", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def clamp(
        self,
        input: TensorLike,
        clip_value_min: float | None = None,
        clip_value_max: float | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Limits the numbers of a tensor; NaN stays NaN.

        out = min(max(self, clip_value_min), clip_value_max) (PyTorch: aten::clamp).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            clip_value_min: The smallest result; none if it is left out.
            clip_value_max: The largest result; none if it is left out.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "clamp",
            inputs,
            {"clip_value_min": clip_value_min, "clip_value_max": clip_value_max},
            timeout_s=timeout_s,
            out=out,
        )

    def convolution(
        self,
        input: TensorLike,
        weight: TensorLike,
        bias: TensorLike | None = None,
        stride: int | Ints = (1,),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        transposed: bool = False,
        output_padding: int | Ints = (0,),
        groups: int = 1,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Convolves along one, two or three axes, also transposed, with or without a bias.

        result[n, o, q] = bias[o] + sum over c, k of input[n, c, q * stride - padding + k * dilation] * weight[o, c, k],
        along one, two or three axes, o and c within each of the groups; with `transposed`, input and result change
        places (PyTorch: aten::convolution). Padding is multiplied as zeros are. On 310P operands of float32 are rounded
        to FLOAT16, see `cube_math_type`, and there are no three axes.

        Args:
            input: The input, shape (N, channels, sizes...). bfloat16, float16, float32 (fewer on some products).
            weight: The weight, shape (output channels, input channels / groups, kernel...), of a transposed convolution
                (input channels, output channels / groups, kernel...), dtype of `input`. bfloat16, float16, float32
                (fewer on some products).
            bias: The bias, shape (output channels,), dtype of `input`. bfloat16, float16, float32 (fewer on some
                products).
            stride: Steps between windows. One value for each spatial axis, or one for all.
            padding: Zeros on both sides. One value for each spatial axis, or one for all.
            dilation: Steps between the cells of a window. One value for each spatial axis, or one for all.
            transposed: The convolution is a transposed one.
            output_padding: Further cells of a transposed one's result. One value for each spatial axis, or one for all.
            groups: Groups of channels that are convolved apart.
            cube_math_type: How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in
                FLOAT16, 3 in HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A
                server on a CPU always multiplies in full.

        Returns: The result, shape (N, output channels, sizes...), dtype of `input`.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"input": input, "weight": weight, "bias": bias}
        return self.execute(
            "convolution",
            inputs,
            {
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "transposed": transposed,
                "output_padding": output_padding,
                "groups": groups,
                "cube_math_type": cube_math_type,
            },
            timeout_s=timeout_s,
            out=out,
        )

    @overload
    def convolution_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: Input,
        weight: Input,
        bias_sizes: int | Ints | None = None,
        stride: int | Ints = (1,),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        transposed: bool = False,
        output_padding: int | Ints = (0,),
        groups: int = 1,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> ConvolutionBackwardOutputs: ...

    @overload
    def convolution_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: Input,
        weight: Input,
        bias_sizes: int | Ints | None = None,
        stride: int | Ints = (1,),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        transposed: bool = False,
        output_padding: int | Ints = (0,),
        groups: int = 1,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, ConvolutionBackwardOutputs]: ...

    @overload
    def convolution_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: Input,
        weight: Input,
        bias_sizes: int | Ints | None = None,
        stride: int | Ints = (1,),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        transposed: bool = False,
        output_padding: int | Ints = (0,),
        groups: int = 1,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def convolution_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        weight: Input,
        bias_sizes: int | Ints | None = None,
        stride: int | Ints = (1,),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        transposed: bool = False,
        output_padding: int | Ints = (0,),
        groups: int = 1,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Computes the gradients of a convolution, also of a transposed one: of its input, its weight and its bias.

        A convolution is result[n, o, q] = bias[o] + sum over c, k of input[n, c, q * stride - padding + k * dilation] *
        weight[o, c, k], along one, two or three axes, o and c within each of the groups; with `transposed`, input and
        result change places. grad_input and grad_weight are the sums that follow, grad_bias[o] is the sum of
        grad_output[:, o] (PyTorch: aten::convolution_backward). Padding is multiplied as zeros are. On 310P and 910A
        operands of float32 are rounded to FLOAT16, see `cube_math_type`, and there are no three axes.

        Args:
            grad_output: The gradient of the result, shape (N, channels, sizes...). bfloat16, float16, float32 (fewer on
                some products).
            input: The input, shape (N, channels, sizes...), dtype of `grad_output`. bfloat16, float16, float32 (fewer
                on some products). Without grad_weight, a tuple of sizes will do.
            weight: The weight, shape (output channels, input channels / groups, kernel...), of a transposed convolution
                (input channels, output channels / groups, kernel...), dtype of `grad_output`. bfloat16, float16,
                float32 (fewer on some products). Without grad_input, a tuple of sizes will do.
            bias_sizes: The shape of the bias, (channels of `grad_output`,); may be left out.
            stride: Steps between windows. One value for each spatial axis, or one for all.
            padding: Zeros on both sides. One value for each spatial axis, or one for all.
            dilation: Steps between the cells of a window. One value for each spatial axis, or one for all.
            transposed: The convolution is a transposed one.
            output_padding: Further cells of a transposed one's result. One value for each spatial axis, or one for all.
            groups: Groups of channels that are convolved apart.
            cube_math_type: How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in
                FLOAT16, 3 in HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A
                server on a CPU always multiplies in full.

        Returns:
            grad_input: Shape of `input`.
            grad_weight: Shape of `weight`.
            grad_bias: Shape (channels of `grad_output`,).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "input": input, "weight": weight}
        return self.execute(
            "convolution_backward",
            inputs,
            {
                "bias_sizes": bias_sizes,
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "transposed": transposed,
                "output_padding": output_padding,
                "groups": groups,
                "cube_math_type": cube_math_type,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def cross_entropy_loss_grad(
        self,
        grad_output: TensorLike,
        log_prob: TensorLike,
        target: TensorLike,
        weight: TensorLike | None = None,
        grad_zloss: TensorLike | None = None,
        lse_for_zloss: TensorLike | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        lse_square_scale_for_zloss: float = 0.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the cross entropy of logits and classes.

        With p = exp(log_prob), w = weight[target], e = label_smoothing, C classes, and D, the sum of w with the mean
        and else 1: g = grad_output / D, a = g * (1 - e) * w, s = g * e / C * weight: out = p * (a + sum(s)) - s, and at
        the target a less; 0 where the target is ignore_index (PyTorch: the gradient of aten::cross_entropy_loss).

        Args:
            grad_output: The gradient of the loss: one value, or (N) if nothing was reduced. bfloat16, float16, float32
                (fewer on some products).
            log_prob: The logarithms of the softmax of the logits, (N, C). bfloat16, float16, float32 (fewer on some
                products).
            target: The class of each row, (N): 0 to C - 1, or ignore_index. int32, int64 (fewer on some products).
            weight: The weight of each class, (C), float32; 1 without it. float32 (fewer on some products).
            grad_zloss: Is refused: devices ignore it. bfloat16, float16, float32 (fewer on some products).
            lse_for_zloss: Is refused: devices ignore it. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of the rows' losses.
            ignore_index: The target whose gradient is 0; it need not be a class.
            label_smoothing: The share of all classes in a target.
            lse_square_scale_for_zloss: Is 0: devices ignore it.

        Returns: The gradient of the logits, with the shape and dtype of log_prob.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "log_prob": log_prob,
            "target": target,
            "weight": weight,
            "grad_zloss": grad_zloss,
            "lse_for_zloss": lse_for_zloss,
        }
        return self.execute(
            "cross_entropy_loss_grad",
            inputs,
            {
                "reduction": reduction,
                "ignore_index": ignore_index,
                "label_smoothing": label_smoothing,
                "lse_square_scale_for_zloss": lse_square_scale_for_zloss,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def ctc_loss_backward(
        self,
        grad_output: TensorLike,
        log_probs: TensorLike,
        targets: TensorLike,
        neg_log_likelihood: TensorLike,
        log_alpha: TensorLike,
        input_lengths: Ints,
        target_lengths: Ints,
        blank: int = 0,
        zero_infinity: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of connectionist temporal classification, by what follows each step.

        With beta, the logarithm of the probability of what follows a place of the target with blanks between: out[t, n,
        c] = grad_output[n] * (exp(log_probs) - exp(neg_log_likelihood[n] - log_probs) * the sum of exp(log_alpha +
        beta) over the places of c), which is the gradient of what log_softmax made log_probs of; 0 beyond input_lengths
        (PyTorch: aten::_ctc_loss_backward).

        Args:
            grad_output: The gradient of each loss, (N). float32, float64 (fewer on some products).
            log_probs: The logarithms of probabilities, (T, N, C). float32, float64 (fewer on some products).
            targets: The classes, (N, S), or one after the other: 0 to C - 1, also beyond a target's length. int32,
                int64 (fewer on some products).
            neg_log_likelihood: The losses, (N), as the forward pass returned them. float32, float64 (fewer on some
                products).
            log_alpha: (N, T, at least 2 * the longest target + 1), of the forward pass. float32, float64 (fewer on some
                products).
            input_lengths: The steps of each of the batch.
            target_lengths: The length of each target.
            blank: The class that separates others.
            zero_infinity: Whether the gradient of an infinite loss is 0.

        Returns: The gradient, with the shape and dtype of log_probs.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "log_probs": log_probs,
            "targets": targets,
            "neg_log_likelihood": neg_log_likelihood,
            "log_alpha": log_alpha,
        }
        return self.execute(
            "ctc_loss_backward",
            inputs,
            {
                "input_lengths": input_lengths,
                "target_lengths": target_lengths,
                "blank": blank,
                "zero_infinity": zero_infinity,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def div(
        self, input: TensorLike, other: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Divides the first tensor by the second one: quotients of integers are float32.

        out = self / other (PyTorch: aten::div.Tensor).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, float16, float32, int32, int64 (fewer on some
                products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, float16, float32, int32,
                int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("div", inputs, {}, timeout_s=timeout_s, out=out)

    def divs(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Divides a tensor by a number; quotients of integers are float32.

        out = self / other (PyTorch: aten::div.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("divs", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def dropout_do_mask(
        self,
        input: TensorLike,
        mask: TensorLike,
        prob: float = 0.5,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Divides what a mask keeps by the share that is kept, and drops the rest: dropout, and its own gradient.

        Element i has bit i % 8, the least significant first, of mask[i // 8]. out = self / (1 - prob) where its bit is
        1, else 0, with 1 - prob rounded to the dtype; self if prob is at most 2^-52 (PyTorch:
        aten::native_dropout_backward).

        Args:
            input: The tensor, or the gradient of the result. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            mask: A bit for each element, 16 bytes for each 128. uint8 (fewer on some products).
            prob: The probability that an element was dropped.

        Returns: The tensor, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "mask": mask}
        return self.execute("dropout_do_mask", inputs, {"prob": prob}, timeout_s=timeout_s, out=out)

    def elu_backward(
        self,
        grad_output: TensorLike,
        self_or_result: TensorLike,
        alpha: float = 1.0,
        scale: float = 1.0,
        input_scale: float = 1.0,
        is_result: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of ELU, and of CELU and SELU, which are ELU with other numbers.

        With a = alpha * scale and s = input_scale: grad_input = grad_output * a * s * exp(self_or_result * s) where
        self_or_result <= 0, or with is_result grad_output * s * (self_or_result + a); elsewhere grad_output * scale
        (PyTorch: aten::elu_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self_or_result. bfloat16, float16,
                float32 (fewer on some products).
            self_or_result: The tensor that the function was applied to, or what it returned. Any shape. bfloat16,
                float16, float32 (fewer on some products).
            alpha: What negative numbers are multiplied by; rounded to float32.
            scale: What all results are multiplied by; rounded to float32.
            input_scale: What negative numbers are multiplied by before the exponential; rounded to float32.
            is_result: Whether self_or_result is what the function returned; alpha is not negative then.

        Returns: The gradient of the input, with the shape and dtype of self_or_result.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self_or_result": self_or_result}
        return self.execute(
            "elu_backward",
            inputs,
            {"alpha": alpha, "scale": scale, "input_scale": input_scale, "is_result": is_result},
            timeout_s=timeout_s,
            out=out,
        )

    def embedding(
        self, weight: TensorLike, indices: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Looks up rows of a weight.

        out[i] = weight[indices[i]] (PyTorch: aten::embedding).

        Args:
            weight: The rows, shape (rows, columns). bfloat16, float16, float32, int32, int64 (fewer on some products).
            indices: The rows that are looked up, from 0 to rows - 1. Any shape. int32, int64 (fewer on some products).

        Returns: The rows: the shape of indices, and a last axis of columns.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"weight": weight, "indices": indices}
        return self.execute("embedding", inputs, {}, timeout_s=timeout_s, out=out)

    def embedding_dense_backward(
        self,
        grad_output: TensorLike,
        indices: TensorLike,
        num_weights: int,
        padding_idx: int = -1,
        scale_grad_by_freq: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of each looked-up row to the row of the weight that it is.

        out[indices[i]] += grad_output[i], but for indices[i] = padding_idx; with scale_grad_by_freq each row is divided
        by the number of its indices (PyTorch: aten::embedding_dense_backward).

        Args:
            grad_output: The gradient of the looked-up rows, in the shape of indices. bfloat16, float16, float32 (fewer
                on some products).
            indices: The rows that were looked up, from 0 to num_weights - 1. int32, int64 (fewer on some products).
            num_weights: The rows of the weight.
            padding_idx: The row that has no gradient; a negative number: none.
            scale_grad_by_freq: Whether each row's gradient is divided by the number of its indices.

        Returns: The gradient of the weight, shape (num_weights, the last size).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "indices": indices}
        return self.execute(
            "embedding_dense_backward",
            inputs,
            {"num_weights": num_weights, "padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq},
            timeout_s=timeout_s,
            out=out,
        )

    def eq_scalar(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where a tensor is equal to a number.

        out = self == other (PyTorch: aten::eq.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("eq_scalar", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def eq_tensor(
        self, input: TensorLike, other: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where two tensors are equal.

        out = self == other (PyTorch: aten::eq.Tensor).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, bool, float16, float32, int32, int64 (fewer on
                some products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, bool, float16, float32,
                int32, int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("eq_tensor", inputs, {}, timeout_s=timeout_s, out=out)

    def exp(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the exponentials; those of integers are float32.

        out = e^self (PyTorch: aten::exp).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int64 (fewer on some products).

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("exp", inputs, {}, timeout_s=timeout_s, out=out)

    @overload
    def flash_attention_score(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> FlashAttentionScoreOutputs: ...

    @overload
    def flash_attention_score(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, FlashAttentionScoreOutputs]: ...

    @overload
    def flash_attention_score(
        self: OperatorMethods[int],
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def flash_attention_score(
        self,
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Computes attention.

        attention_out = softmax(scale_value * query @ key^T) @ value for each head, over the keys that are not masked
        out (PyTorch: aten::scaled_dot_product_attention). softmax_max has the largest score of each row and softmax_sum
        the sum of exp(score - softmax_max). A row without a key has the result 0.

        Args:
            query: The queries, N heads of D elements in the input_layout. bfloat16, float16, float32 (fewer on some
                products).
            key: The keys, with the dtype of query: M heads of D, where M divides N. bfloat16, float16, float32 (fewer
                on some products).
            value: The values, shaped as the keys, with heads of at most D elements. bfloat16, float16, float32 (fewer
                on some products).
            atten_mask: True where a key is masked out, the inverse of PyTorch's: (B, N, Sq, Skv), (B, 1, Sq, Skv), (1,
                1, Sq, Skv) or (Sq, Skv). Leave it out for the sparse modes 2 and 3. bool (fewer on some products).
            scale_value: What the products of query and key are multiplied by: 1 / sqrt(D) if it is left out.
            head_num: The number N of the query's heads: needed for the layouts BSH and SBH, which do not show it.
            input_layout: The axes of all tensors but masks and statistics: sequences B, heads N, positions S, elements
                of a head D; H is N * D.
            sparse_mode: Which keys a query sees: 0 or 1, all that atten_mask leaves; 2, those up to its own position,
                counted from the first; 3, counted from the last.

        Returns:
            softmax_max: (B, N, Sq, 8), float32: one value eight times.
            softmax_sum: (B, N, Sq, 8), float32: one value eight times.
            attention_out: The result: query's shape and dtype, with the heads of value.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"query": query, "key": key, "value": value, "atten_mask": atten_mask}
        return self.execute(
            "flash_attention_score",
            inputs,
            {
                "scale_value": scale_value,
                "head_num": head_num,
                "input_layout": input_layout,
                "sparse_mode": sparse_mode,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def flash_attention_score_grad(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> FlashAttentionScoreGradOutputs: ...

    @overload
    def flash_attention_score_grad(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, FlashAttentionScoreGradOutputs]: ...

    @overload
    def flash_attention_score_grad(
        self: OperatorMethods[int],
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def flash_attention_score_grad(
        self,
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of attention: of query, key and value.

        With P = exp(scale_value * query @ key_in^T - softmax_max) / softmax_sum and dS = P * (dy @ value^T - sum(dy *
        attention_in)): dq = scale_value * dS @ key_in, dk = scale_value * dS^T @ query, dv = P^T @ dy (PyTorch:
        aten::_scaled_dot_product_flash_attention_for_cpu_backward, whose logsumexp is softmax_max where softmax_sum is
        1).

        Args:
            query: The queries, N heads of D elements in the input_layout. bfloat16, float16, float32 (fewer on some
                products).
            key_in: The keys, with the dtype of query: M heads of D, where M divides N. bfloat16, float16, float32
                (fewer on some products).
            value: The values, shaped as the keys, with heads of at most D elements. bfloat16, float16, float32 (fewer
                on some products).
            dy: The gradient of the result, with query's dtype and attention_in's shape. bfloat16, float16, float32
                (fewer on some products).
            atten_mask: True where a key is masked out, the inverse of PyTorch's: (B, N, Sq, Skv), (B, 1, Sq, Skv), (1,
                1, Sq, Skv) or (Sq, Skv). Leave it out for the sparse modes 2 and 3. bool (fewer on some products).
            softmax_max: The largest score of each row, or its logsumexp: (B, N, Sq) float32, or (B, N, Sq, 8) as the
                forward operator returns it. float32 (fewer on some products).
            softmax_sum: The sum of exp(score - softmax_max), or 1 with a logsumexp: (B, N, Sq) float32, or (B, N, Sq,
                8) as the forward operator returns it. float32 (fewer on some products).
            attention_in: The result of the forward pass: query's shape and dtype, with the heads of value. bfloat16,
                float16, float32 (fewer on some products).
            scale_value: What the products of query and key are multiplied by: 1 / sqrt(D) if it is left out.
            head_num: The number N of the query's heads: needed for the layouts BSH and SBH, which do not show it.
            input_layout: The axes of all tensors but masks and statistics: sequences B, heads N, positions S, elements
                of a head D; H is N * D.
            sparse_mode: Which keys a query sees: 0 or 1, all that atten_mask leaves; 2, those up to its own position,
                counted from the first; 3, counted from the last.

        Returns:
            dq: The gradient of query, with its shape and dtype.
            dk: The gradient of key_in, with its shape and dtype.
            dv: The gradient of value, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "query": query,
            "key_in": key_in,
            "value": value,
            "dy": dy,
            "atten_mask": atten_mask,
            "softmax_max": softmax_max,
            "softmax_sum": softmax_sum,
            "attention_in": attention_in,
        }
        return self.execute(
            "flash_attention_score_grad",
            inputs,
            {
                "scale_value": scale_value,
                "head_num": head_num,
                "input_layout": input_layout,
                "sparse_mode": sparse_mode,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def flash_attention_score_grad_v2(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        pse_shift: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> FlashAttentionScoreGradV2Outputs: ...

    @overload
    def flash_attention_score_grad_v2(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        pse_shift: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, FlashAttentionScoreGradV2Outputs]: ...

    @overload
    def flash_attention_score_grad_v2(
        self: OperatorMethods[int],
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        pse_shift: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def flash_attention_score_grad_v2(
        self,
        query: TensorLike,
        key_in: TensorLike,
        value: TensorLike,
        dy: TensorLike,
        pse_shift: TensorLike,
        softmax_max: TensorLike,
        softmax_sum: TensorLike,
        attention_in: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of attention with a bias: of query, key and value.

        With P = exp(scale_value * query @ key_in^T + pse_shift - softmax_max) / softmax_sum and dS = P * (dy @ value^T
        - sum(dy * attention_in)): dq = scale_value * dS @ key_in, dk = scale_value * dS^T @ query, dv = P^T @ dy
        (PyTorch: aten::_scaled_dot_product_flash_attention_for_cpu_backward, whose logsumexp is softmax_max where
        softmax_sum is 1).

        Args:
            query: The queries, N heads of D elements in the input_layout. bfloat16, float16, float32 (fewer on some
                products).
            key_in: The keys, with the dtype of query: M heads of D, where M divides N. bfloat16, float16, float32
                (fewer on some products).
            value: The values, shaped as the keys, with heads of at most D elements. bfloat16, float16, float32 (fewer
                on some products).
            dy: The gradient of the result, with query's dtype and attention_in's shape. bfloat16, float16, float32
                (fewer on some products).
            pse_shift: What is added to the scaled products, with the dtype of query: (B, N, Sq, Skv), (1, N, Sq, Skv)
                or (B, N, 1, Skv). bfloat16, float16, float32 (fewer on some products).
            atten_mask: True where a key is masked out, the inverse of PyTorch's: (B, N, Sq, Skv), (B, 1, Sq, Skv), (1,
                1, Sq, Skv) or (Sq, Skv). Leave it out for the sparse modes 2 and 3. bool (fewer on some products).
            softmax_max: The largest score of each row, or its logsumexp: (B, N, Sq) float32, or (B, N, Sq, 8) as the
                forward operator returns it. float32 (fewer on some products).
            softmax_sum: The sum of exp(score - softmax_max), or 1 with a logsumexp: (B, N, Sq) float32, or (B, N, Sq,
                8) as the forward operator returns it. float32 (fewer on some products).
            attention_in: The result of the forward pass: query's shape and dtype, with the heads of value. bfloat16,
                float16, float32 (fewer on some products).
            scale_value: What the products of query and key are multiplied by: 1 / sqrt(D) if it is left out.
            head_num: The number N of the query's heads: needed for the layouts BSH and SBH, which do not show it.
            input_layout: The axes of all tensors but masks and statistics: sequences B, heads N, positions S, elements
                of a head D; H is N * D.
            sparse_mode: Which keys a query sees: 0 or 1, all that atten_mask leaves; 2, those up to its own position,
                counted from the first; 3, counted from the last.

        Returns:
            dq: The gradient of query, with its shape and dtype.
            dk: The gradient of key_in, with its shape and dtype.
            dv: The gradient of value, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "query": query,
            "key_in": key_in,
            "value": value,
            "dy": dy,
            "pse_shift": pse_shift,
            "atten_mask": atten_mask,
            "softmax_max": softmax_max,
            "softmax_sum": softmax_sum,
            "attention_in": attention_in,
        }
        return self.execute(
            "flash_attention_score_grad_v2",
            inputs,
            {
                "scale_value": scale_value,
                "head_num": head_num,
                "input_layout": input_layout,
                "sparse_mode": sparse_mode,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def flash_attention_score_v2(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        real_shift: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> FlashAttentionScoreV2Outputs: ...

    @overload
    def flash_attention_score_v2(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        real_shift: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, FlashAttentionScoreV2Outputs]: ...

    @overload
    def flash_attention_score_v2(
        self: OperatorMethods[int],
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        real_shift: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def flash_attention_score_v2(
        self,
        query: TensorLike,
        key: TensorLike,
        value: TensorLike,
        real_shift: TensorLike,
        atten_mask: TensorLike | None = None,
        scale_value: float | None = None,
        head_num: int | None = None,
        input_layout: str = "BNSD",
        sparse_mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Computes attention, with a bias of the scores.

        attention_out = softmax(scale_value * query @ key^T + real_shift) @ value for each head, over the keys that are
        not masked out (PyTorch: aten::scaled_dot_product_attention). softmax_max has the largest score of each row and
        softmax_sum the sum of exp(score - softmax_max). A row without a key has the result 0.

        Args:
            query: The queries, N heads of D elements in the input_layout. bfloat16, float16, float32 (fewer on some
                products).
            key: The keys, with the dtype of query: M heads of D, where M divides N. bfloat16, float16, float32 (fewer
                on some products).
            value: The values, shaped as the keys, with heads of at most D elements. bfloat16, float16, float32 (fewer
                on some products).
            real_shift: What is added to the scaled products, with the dtype of query: (B, N, Sq, Skv), (1, N, Sq, Skv)
                or (B, N, 1, Skv). bfloat16, float16, float32 (fewer on some products).
            atten_mask: True where a key is masked out, the inverse of PyTorch's: (B, N, Sq, Skv), (B, 1, Sq, Skv), (1,
                1, Sq, Skv) or (Sq, Skv). Leave it out for the sparse modes 2 and 3. bool (fewer on some products).
            scale_value: What the products of query and key are multiplied by: 1 / sqrt(D) if it is left out.
            head_num: The number N of the query's heads: needed for the layouts BSH and SBH, which do not show it.
            input_layout: The axes of all tensors but masks and statistics: sequences B, heads N, positions S, elements
                of a head D; H is N * D.
            sparse_mode: Which keys a query sees: 0 or 1, all that atten_mask leaves; 2, those up to its own position,
                counted from the first; 3, counted from the last.

        Returns:
            softmax_max: (B, N, Sq, 8), float32: one value eight times.
            softmax_sum: (B, N, Sq, 8), float32: one value eight times.
            attention_out: The result: query's shape and dtype, with the heads of value.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "query": query,
            "key": key,
            "value": value,
            "real_shift": real_shift,
            "atten_mask": atten_mask,
        }
        return self.execute(
            "flash_attention_score_v2",
            inputs,
            {
                "scale_value": scale_value,
                "head_num": head_num,
                "input_layout": input_layout,
                "sparse_mode": sparse_mode,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def gather(
        self, input: TensorLike, index: TensorLike, dim: int, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Takes elements of a tensor, each at a position of its own along one axis.

        Along the axis, out[i] = self[index[i]]; along others, out and self have the same place (PyTorch: aten::gather).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            index: The positions; at most as large as self in all other axes. From 0 to the size of the axis. int32,
                int64 (fewer on some products).
            dim: The axis of self; a negative one counts from the last.

        Returns: The elements, in the shape of index.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "index": index}
        return self.execute("gather", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def ge_scalar(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where a tensor is at least a number.

        out = self >= other (PyTorch: aten::ge.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("ge_scalar", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def gelu_backward(
        self, grad_output: TensorLike, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of GELU in the approximation by a hyperbolic tangent.

        With u = sqrt(2 / pi) * (self + 0.044715 * self^3) and t = tanh(u): grad_input = grad_output * (0.5 * (1 + t) +
        0.5 * self * (1 - t^2) * sqrt(2 / pi) * (1 + 0.134145 * self^2)) (PyTorch: aten::gelu_backward with
        approximate="tanh").

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("gelu_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def gelu_backward_v2(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        approximate: str = "none",
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of GELU: of the exact one, or of the approximation by a hyperbolic tangent.

        With "none": grad_input = grad_output * (Phi(self) + self * phi(self)), where Phi and phi are the distribution
        and the density of normal numbers; with "tanh": as gelu_backward (PyTorch: aten::gelu_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            approximate: The function that was applied: "none", the exact one, or "tanh".

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("gelu_backward_v2", inputs, {"approximate": approximate}, timeout_s=timeout_s, out=out)

    def gelu_v2(
        self, x: TensorLike, approximate: str = "none", *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the GELU: the exact one, or the approximation by a hyperbolic tangent.

        With "none": y = x * Phi(x), where Phi is the distribution of normal numbers; with "tanh": y = 0.5 * x * (1 +
        tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) (PyTorch: aten::gelu).

        Args:
            x: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).
            approximate: The function: "none", the exact one, or "tanh".

        Returns: The results, with the shape of x and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"x": x}
        return self.execute("gelu_v2", inputs, {"approximate": approximate}, timeout_s=timeout_s, out=out)

    def glu_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        dim: int = -1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of GLU, A * sigmoid(B), where A and B are the halves of self along dim.

        With s = sigmoid(B): the first half of out is grad_output * s, the second grad_output * A * s * (1 - s)
        (PyTorch: aten::glu_backward).

        Args:
            grad_output: The gradient of the result, shaped as self with half of dim. bfloat16, float16, float32,
                float64 (fewer on some products).
            input: The tensor that the function was applied to: A, then B, along dim. bfloat16, float16, float32,
                float64 (fewer on some products).
            dim: The axis that is halved; negative: counted from the end.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("glu_backward", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def grid_sampler2d(
        self,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Samples planes at the points of a grid.

        A point (x, y) is at ((x + 1) W - 1) / 2, ((y + 1) H - 1) / 2 in cells, or with align_corners at (x + 1) / 2 (W
        - 1), (y + 1) / 2 (H - 1), then padded: border moves it to the nearest cell, reflection mirrors it at the edges.
        Its sample is the nearest cell (halves to even), or the mean of the four around it weighted bilinearly; cells
        outside are 0. A point that is not at a number is outside (PyTorch: aten::grid_sampler_2d).

        Args:
            input: The images, shape (N, C, H, W). bfloat16, float16, float32, float64 (fewer on some products).
            grid: The points, shape (N, oH, oW, 2): x and y, with the image between -1 and 1. bfloat16, float16,
                float32, float64 (fewer on some products).
            interpolation_mode: 0: bilinear, 1: nearest.
            padding_mode: 0: zeros, 1: border, 2: reflection.
            align_corners: -1 and 1 are the centres of the outer cells, not edges.

        Returns: The samples, shape (N, C, oH, oW).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"input": input, "grid": grid}
        return self.execute(
            "grid_sampler2d",
            inputs,
            {"interpolation_mode": interpolation_mode, "padding_mode": padding_mode, "align_corners": align_corners},
            timeout_s=timeout_s,
            out=out,
        )

    @overload
    def grid_sampler2d_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> GridSampler2DBackwardOutputs: ...

    @overload
    def grid_sampler2d_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, GridSampler2DBackwardOutputs]: ...

    @overload
    def grid_sampler2d_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def grid_sampler2d_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Adds the gradient of every sample to the cells that it was taken from, and to the place of its point.

        A point (x, y) is at ((x + 1) W - 1) / 2, ((y + 1) H - 1) / 2 in cells, or with align_corners at (x + 1) / 2 (W
        - 1), (y + 1) / 2 (H - 1), then padded: border moves it to the nearest cell, reflection mirrors it at the edges.
        Its sample is the nearest cell (halves to even), or the mean of the four around it weighted bilinearly; cells
        outside are 0. The gradient of a point that was moved to the border is 0, as it is for nearest. A point that is
        not at a number is outside (PyTorch: aten::grid_sampler_2d_backward).

        Args:
            grad_output: The gradient of the samples, shape (N, C, oH, oW). bfloat16, float16, float32, float64 (fewer
                on some products).
            input: The images that were sampled, shape (N, C, H, W). bfloat16, float16, float32, float64 (fewer on some
                products).
            grid: The points, shape (N, oH, oW, 2): x and y, with the image between -1 and 1. bfloat16, float16,
                float32, float64 (fewer on some products).
            interpolation_mode: 0: bilinear, 1: nearest. 2, bicubic, exists from CANN 9.1 on and is not served.
            padding_mode: 0: zeros, 1: border, 2: reflection.
            align_corners: -1 and 1 are the centres of the outer cells, not edges.

        Returns:
            input_grad: The gradient of `input`, of its shape and dtype.
            grid_grad: The gradient of `grid`, of its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "input": input, "grid": grid}
        return self.execute(
            "grid_sampler2d_backward",
            inputs,
            {"interpolation_mode": interpolation_mode, "padding_mode": padding_mode, "align_corners": align_corners},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def grid_sampler3d_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> GridSampler3DBackwardOutputs: ...

    @overload
    def grid_sampler3d_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, GridSampler3DBackwardOutputs]: ...

    @overload
    def grid_sampler3d_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def grid_sampler3d_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        grid: TensorLike,
        interpolation_mode: int = 0,
        padding_mode: int = 0,
        align_corners: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Adds the gradient of every sample to the cells that it was taken from, and to the place of its point.

        A point (x, y, z) is at ((x + 1) W - 1) / 2, ((y + 1) H - 1) / 2, ((z + 1) D - 1) / 2 in cells, or with
        align_corners at (x + 1) / 2 (W - 1), (y + 1) / 2 (H - 1), (z + 1) / 2 (D - 1), then padded: border moves it to
        the nearest cell, reflection mirrors it at the edges. Its sample is the nearest cell (halves to even), or the
        mean of the eight around it weighted trilinearly; cells outside are 0. The gradient of a point that was moved to
        the border is 0, as it is for nearest. A point that is not at a number is outside (PyTorch:
        aten::grid_sampler_3d_backward).

        Args:
            grad_output: The gradient of the samples, shape (N, C, oD, oH, oW). bfloat16, float16, float32, float64
                (fewer on some products).
            input: The volumes that were sampled, shape (N, C, D, H, W). bfloat16, float16, float32, float64 (fewer on
                some products).
            grid: The points, shape (N, oD, oH, oW, 3): x, y and z, with the volume between -1 and 1. bfloat16, float16,
                float32, float64 (fewer on some products).
            interpolation_mode: 0: trilinear, 1: nearest.
            padding_mode: 0: zeros, 1: border, 2: reflection.
            align_corners: -1 and 1 are the centres of the outer cells, not edges.

        Returns:
            input_grad: The gradient of `input`, of its shape and dtype.
            grid_grad: The gradient of `grid`, of its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "input": input, "grid": grid}
        return self.execute(
            "grid_sampler3d_backward",
            inputs,
            {"interpolation_mode": interpolation_mode, "padding_mode": padding_mode, "align_corners": align_corners},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def group_norm(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        input: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        beta: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> GroupNormOutputs: ...

    @overload
    def group_norm(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        input: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        beta: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, GroupNormOutputs]: ...

    @overload
    def group_norm(
        self: OperatorMethods[int],
        input: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        beta: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def group_norm(
        self,
        input: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        beta: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Normalises groups of the channels of each sample by their mean and deviation.

        out = (self - mean_out) * rstd_out * gamma + beta, where mean_out is the mean of a group and rstd_out = 1 /
        sqrt(variance + eps) (PyTorch: aten::native_group_norm).

        Args:
            input: The tensor, shape (N, C, ...). bfloat16, float16, float32 (fewer on some products).
            gamma: What the normalised elements are multiplied by, shape (C,), with the dtype of self. Left out: ones.
                bfloat16, float16, float32 (fewer on some products).
            beta: What is added to them, shape (C,), with the dtype of self. Left out: zeros. bfloat16, float16, float32
                (fewer on some products).
            n: N of the shape of self.
            c: C of the shape of self.
            hxw: The product of its other sizes.
            group: The groups of channels, which divide C.
            eps: What is added to each variance; rounded to float32.

        Returns:
            out: The normalised tensor, with the shape and dtype of self.
            mean_out: The mean of each group, shape (N, group), with the dtype of self.
            rstd_out: 1 / sqrt(variance + eps) of each group, in the same way.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "gamma": gamma, "beta": beta}
        return self.execute(
            "group_norm",
            inputs,
            {"n": n, "c": c, "hxw": hxw, "group": group, "eps": eps},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def group_norm_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> GroupNormBackwardOutputs: ...

    @overload
    def group_norm_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, GroupNormBackwardOutputs]: ...

    @overload
    def group_norm_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def group_norm_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        n: int,
        c: int,
        hxw: int,
        group: int,
        gamma: TensorLike | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of group normalisation: of the input, the weight and the bias.

        With x = (input - mean) * rstd and g = grad_output * gamma: grad_input = rstd * (g - mean(g) - x * mean(g * x)),
        where mean() is over the channels of a group; grad_gamma is the sum of grad_output * x over all but the
        channels, and grad_beta that of grad_output (PyTorch: aten::native_group_norm_backward).

        Args:
            grad_output: The gradient of the normalised tensor, with its shape and dtype. bfloat16, float16, float32
                (fewer on some products).
            input: The tensor that was normalised, shape (N, C, ...). bfloat16, float16, float32 (fewer on some
                products).
            mean: The mean of each group, shape (N, group) or (N * group,): the dtype of input; on the 950 float32 will
                do, too. bfloat16, float16, float32 (fewer on some products).
            rstd: 1 / sqrt(variance + eps) of each group, with a shape that mean may have and its dtype. bfloat16,
                float16, float32 (fewer on some products).
            gamma: What the channels were multiplied by, shape (C,), with the dtype of mean. Left out: ones. bfloat16,
                float16, float32 (fewer on some products).
            n: N of the shape of input.
            c: C of the shape of input.
            hxw: The product of all further sizes of input.
            group: The groups of channels, which divide C.

        Returns:
            grad_input: The gradient of input, with its shape and dtype.
            grad_gamma: The gradient of gamma, shape (C,), with the dtype of mean.
            grad_beta: The gradient of the bias, shape (C,), with the dtype of mean.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "input": input, "mean": mean, "rstd": rstd, "gamma": gamma}
        return self.execute(
            "group_norm_backward",
            inputs,
            {"n": n, "c": c, "hxw": hxw, "group": group},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def gt_scalar(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where a tensor is greater than a number.

        out = self > other (PyTorch: aten::gt.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("gt_scalar", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def gt_tensor(
        self, input: TensorLike, other: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where the first tensor is greater than the second one.

        out = self > other (PyTorch: aten::gt.Tensor).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, bool, float16, float32, int32, int64 (fewer on
                some products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, bool, float16, float32,
                int32, int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("gt_tensor", inputs, {}, timeout_s=timeout_s, out=out)

    def hardshrink_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        lambd: float = 0.5,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of hard shrink, which is 0 near 0.

        grad_input = 0 where -lambd <= self <= lambd, else grad_output (PyTorch: aten::hardshrink_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            lambd: The largest size of numbers that are taken for 0; rounded to float32.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("hardshrink_backward", inputs, {"lambd": lambd}, timeout_s=timeout_s, out=out)

    def hardsigmoid_backward(
        self, grad_output: TensorLike, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of hard sigmoid, min(max(self + 3, 0), 6) / 6.

        out = grad_output / 6 where -3 < self < 3, else 0 (PyTorch: aten::hardsigmoid_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("hardsigmoid_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def hardswish(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the hard swish.

        out = self * min(max(self + 3, 0), 6) / 6 (PyTorch: aten::hardswish).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("hardswish", inputs, {}, timeout_s=timeout_s, out=out)

    def hardswish_backward(
        self, grad_output: TensorLike, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of hard swish, self * min(max(self + 3, 0), 6) / 6.

        out = 0 where self < -3, grad_output where self > 3, else grad_output * (self / 3 + 0.5) (PyTorch:
        aten::hardswish_backward, but at -3 and 3).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("hardswish_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def hardtanh_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        min: float = -1.0,
        max: float = 1.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of what limits numbers to min and max, as hard tanh and ReLU6 do.

        out = grad_output where min < self < max or self is NaN, else 0 (PyTorch: aten::hardtanh_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            min: The smallest result; rounded to float32.
            max: The largest result; rounded to float32.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("hardtanh_backward", inputs, {"min": min, "max": max}, timeout_s=timeout_s, out=out)

    def index_add(
        self,
        input: TensorLike,
        index: TensorLike,
        source: TensorLike,
        dim: int,
        alpha: float = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds slices to those of a tensor, by their positions along one axis.

        out = self, and along the axis out[index[i]] += alpha * source[i]; integers wrap around (PyTorch:
        aten::index_add).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            index: The position of each slice. From 0 to the size of the axis. int32, int64 (fewer on some products).
            source: The slices, with the dtype of self and its sizes along others. bfloat16, float16, float32, int32,
                int64 (fewer on some products).
            dim: The axis of self; a negative one counts from the last.
            alpha: What source is multiplied by.

        Returns: The sums, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "index": index, "source": source}
        return self.execute("index_add", inputs, {"dim": dim, "alpha": alpha}, timeout_s=timeout_s, out=out)

    def index_select(
        self, input: TensorLike, index: TensorLike, dim: int, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Takes slices of a tensor, by their positions along one axis.

        Along the axis, out[i] = self[index[i]] (PyTorch: aten::index_select).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            index: The position of each slice. From 0 to the size of the axis. int32, int64 (fewer on some products).
            dim: The axis of self; a negative one counts from the last.

        Returns: The slices: self, with as many along the axis as index has.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "index": index}
        return self.execute("index_select", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def inplace_copy(
        self,
        input: Input,
        src: TensorLike,
        shape: int | Ints | None = None,
        offset: int = 0,
        strides: int | Ints | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Copies a tensor into another one, of any type, or into a part of it, and gives the other one.

        self_ref = self, but the part of it that has the shape, offset and strides is src, converted: a number is true
        unless it is 0, integers keep their lowest bits, and real numbers lose what is behind the point. Numbers beyond
        the range of integers become any (PyTorch: aten::copy_, aten::as_strided_scatter).

        Args:
            input: What is written to, which stays as it is. Any shape. bfloat16, bool, float16, float32, int32, int64,
                int8, uint8 (fewer on some products). A tuple of sizes will do.
            src: What is copied. Any shape that broadcasts to the part. bfloat16, bool, float16, float32, int32, int64,
                int8, uint8 (fewer on some products).
            shape: The shape of the part that is written; all of self if it is left out.
            offset: The element of self that is the first of the part.
            strides: How many elements of self lie between neighbours of the part; row-major without.

        Returns: self with the part, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "src": src}
        return self.execute(
            "inplace_copy", inputs, {"shape": shape, "offset": offset, "strides": strides}, timeout_s=timeout_s, out=out
        )

    def inplace_fill_scalar(
        self, input: Input, value: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives a tensor of a shape and dtype, all of whose elements are one number.

        self_ref = value (PyTorch: aten::fill_.Scalar, aten::full).

        Args:
            input: What is written to, which stays as it is: only its shape and dtype count. Any shape. bfloat16, bool,
                float16, float32, int32, int64, int8, uint8 (fewer on some products). A tuple of sizes will do.
            value: The number.

        Returns: The tensor, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("inplace_fill_scalar", inputs, {"value": value}, timeout_s=timeout_s, out=out)

    def kl_div_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        reduction: int = 1,
        log_target: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the divergence of Kullback and Leibler by the logarithms of probabilities.

        out = -target * grad_output, with log_target -exp(target) * grad_output, and divided by the first size of self
        if the reduction is 3 (PyTorch: the gradient of aten::kl_div); divided by the number of elements of self if the
        reduction is 1

        Args:
            grad_output: The gradient of the loss, broadcast to self: one element, or more. bfloat16, float16, float32
                (fewer on some products).
            input: What the loss was computed of, of any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum, 3 the mean of the
                batch.
            log_target: Whether the target is a logarithm, too.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "target": target}
        return self.execute(
            "kl_div_backward", inputs, {"reduction": reduction, "log_target": log_target}, timeout_s=timeout_s, out=out
        )

    def l1_loss_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        reduction: int = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the absolute difference.

        grad_input = grad_output * sign(self - target), which is 0 where both are equal (PyTorch: the gradient of
        aten::l1_loss); divided by the number of elements of self if the reduction is 1

        Args:
            grad_output: The gradient of the loss, broadcast to self: one element, or more. bfloat16, float16, float32
                (fewer on some products).
            input: What the loss was computed of, of any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "target": target}
        return self.execute("l1_loss_backward", inputs, {"reduction": reduction}, timeout_s=timeout_s, out=out)

    @overload
    def layer_norm(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        input: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> LayerNormOutputs: ...

    @overload
    def layer_norm(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        input: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, LayerNormOutputs]: ...

    @overload
    def layer_norm(
        self: OperatorMethods[int],
        input: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def layer_norm(
        self,
        input: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: TensorLike | None = None,
        eps: float = 1e-05,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Normalises the elements of each row by their mean and deviation.

        out = (input - mean_out) * rstd_out * weight + bias, where mean_out is the mean over normalized_shape and
        rstd_out = 1 / sqrt(variance + eps) (PyTorch: aten::native_layer_norm).

        Args:
            input: The tensor, whose last sizes are normalized_shape. bfloat16, float16, float32 (fewer on some
                products).
            weight: What the normalised elements are multiplied by, of normalized_shape: float32, or the dtype of input,
                as the other. Left out: ones. bfloat16, float16, float32 (fewer on some products).
            bias: What is added to them, of normalized_shape: float32, or the dtype of input, as the other. Left out:
                zeros. bfloat16, float16, float32 (fewer on some products).
            normalized_shape: The last sizes of input, over which each row is normalised.
            eps: What is added to each variance; rounded to float32.

        Returns:
            out: The normalised tensor, with the shape and dtype of input.
            mean_out: The mean of each row, float32 or rounded; the sizes of input before normalized_shape, then ones.
            rstd_out: 1 / sqrt(variance + eps) of each row, in the same way.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"input": input, "weight": weight, "bias": bias}
        return self.execute(
            "layer_norm",
            inputs,
            {"normalized_shape": normalized_shape, "eps": eps},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    @overload
    def layer_norm_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: Input | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> LayerNormBackwardOutputs: ...

    @overload
    def layer_norm_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: Input | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, LayerNormBackwardOutputs]: ...

    @overload
    def layer_norm_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: Input | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def layer_norm_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        mean: TensorLike,
        rstd: TensorLike,
        normalized_shape: int | Ints,
        weight: TensorLike | None = None,
        bias: Input | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of layer normalisation: of the input, the weight and the bias.

        With x = (input - mean) * rstd and g = grad_output * weight: grad_input = rstd * (g - mean(g) - x * mean(g *
        x)), where mean() is over normalized_shape; grad_weight is the sum over all rows of grad_output * x, and
        grad_bias that of grad_output (PyTorch: aten::native_layer_norm_backward).

        Args:
            grad_output: The gradient of the normalised tensor, with its shape and dtype. bfloat16, float16, float32
                (fewer on some products).
            input: The tensor that was normalised, whose last sizes are normalized_shape. bfloat16, float16, float32
                (fewer on some products).
            mean: The mean of each row, with the sizes of the input before normalized_shape, and 1 for any of the
                others, or as a list of the rows: float32, or the dtype of input. bfloat16, float16, float32 (fewer on
                some products).
            rstd: 1 / sqrt(variance + eps) of each row, with the shape and dtype of mean. bfloat16, float16, float32
                (fewer on some products).
            weight: What the normalised rows were multiplied by, of normalized_shape: float32, or the dtype of input.
                Left out: ones. bfloat16, float16, float32 (fewer on some products).
            bias: What was added, of normalized_shape; no gradient depends on it. bfloat16, float16, float32 (fewer on
                some products). A tuple of sizes will do.
            normalized_shape: The last sizes of input, over which each row was normalised.

        Returns:
            grad_input: The gradient of input, with its shape and dtype.
            grad_weight: The gradient of weight: float32, of normalized_shape.
            grad_bias: The gradient of bias: float32, of normalized_shape.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "input": input,
            "mean": mean,
            "rstd": rstd,
            "weight": weight,
            "bias": bias,
        }
        return self.execute(
            "layer_norm_backward",
            inputs,
            {"normalized_shape": normalized_shape},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def le_scalar(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where a tensor is at most a number.

        out = self <= other (PyTorch: aten::le.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("le_scalar", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def leaky_relu(
        self,
        input: TensorLike,
        negative_slope: float = 0.01,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the numbers, and those below 0 times a slope.

        out = self where self > 0, else self * negative_slope (PyTorch: aten::leaky_relu).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).
            negative_slope: What negative numbers are multiplied by; rounded to float32.

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("leaky_relu", inputs, {"negative_slope": negative_slope}, timeout_s=timeout_s, out=out)

    def leaky_relu_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        negative_slope: float = 0.01,
        self_is_result: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of leaky ReLU: that of the result, times the slope where the input is not above 0.

        out = grad_output where self > 0, else grad_output * negative_slope (PyTorch: aten::leaky_relu_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32,
                float64 (fewer on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32, float64 (fewer on
                some products).
            negative_slope: What the function multiplies negative numbers by; rounded to float32.
            self_is_result: Whether self is what the function returned; the slope is not negative then.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute(
            "leaky_relu_backward",
            inputs,
            {"negative_slope": negative_slope, "self_is_result": self_is_result},
            timeout_s=timeout_s,
            out=out,
        )

    def log(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the natural logarithms; those of integers are float32.

        out = ln(self), NaN below 0 and -inf at 0 (PyTorch: aten::log).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("log", inputs, {}, timeout_s=timeout_s, out=out)

    def log_sigmoid_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        buffer: Input,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the logarithm of the logistic sigmoid.

        grad_input = grad_output * sigmoid(-self) (PyTorch: aten::log_sigmoid_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            buffer: What PyTorch's forward function returns beside its result; never read. Any shape. bfloat16, float16,
                float32 (fewer on some products). A tuple of sizes will do.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "buffer": buffer}
        return self.execute("log_sigmoid_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def log_softmax(
        self, input: TensorLike, dim: int, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the logarithm of softmax along one axis.

        out = self - log(sum(exp(self))), where sum() is along dim (PyTorch: aten::log_softmax.int).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).
            dim: The axis along which it is computed; a negative one counts from the last.

        Returns: The result, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("log_softmax", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def log_softmax_backward(
        self,
        grad_output: TensorLike,
        output: TensorLike,
        dim: int,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the logarithm of softmax along one axis.

        out = grad_output - exp(output) * sum(grad_output), where sum() is along dim (PyTorch:
        aten::_log_softmax_backward_data).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of output. bfloat16, float16, float32
                (fewer on some products).
            output: What the logarithm of softmax returned. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            dim: The axis along which it was computed; a negative one counts from the last.

        Returns: The gradient of the input, with the shape and dtype of output.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "output": output}
        return self.execute("log_softmax_backward", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def lt_scalar(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Says where a tensor is less than a number.

        out = self < other (PyTorch: aten::lt.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("lt_scalar", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def matmul(
        self,
        input: TensorLike,
        mat2: TensorLike,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Multiplies vectors, matrices, or batches of matrices.

        out = self @ mat2: axes in front of the last two broadcast, and a vector is a row on the left and a column on
        the right, whose axis out lacks (PyTorch: aten::matmul).

        Args:
            input: A vector, a matrix, or a batch of matrices, the left operand. bfloat16, float16, float32 (fewer on
                some products).
            mat2: A vector, a matrix, or a batch of matrices, the right operand, with the dtype of the left one.
                bfloat16, float16, float32 (fewer on some products).
            cube_math_type: How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in
                FLOAT16, 3 in HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A
                server on a CPU always multiplies in full.

        Returns: The product, with the dtype of the operands.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "mat2": mat2}
        return self.execute("matmul", inputs, {"cube_math_type": cube_math_type}, timeout_s=timeout_s, out=out)

    @overload
    def max_pool2d_with_indices(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> MaxPool2dWithIndicesOutputs: ...

    @overload
    def max_pool2d_with_indices(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, MaxPool2dWithIndicesOutputs]: ...

    @overload
    def max_pool2d_with_indices(
        self: OperatorMethods[int],
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def max_pool2d_with_indices(
        self,
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Takes the maximum of each window of a plane, and says where they are.

        out[n, c, oh, ow] = the maximum of self[n, c] over the window; NaN is larger than any number. The padding is
        minus infinity (PyTorch: aten::max_pool2d_with_indices).

        Args:
            input: The tensor, shape (N, C, H, W) or (C, H, W). bfloat16, float16, float32 (fewer on some products).
            kernel_size: Height and width of a window.
            stride: Distance of the windows; empty for the size of the kernel.
            padding: Cells added on both sides, at most half the kernel.
            dilation: Distance of the cells of a window; 1 except on product 950.
            ceil_mode: Rounds the pooled size up, so that a last window may reach beyond the padded plane.

        Returns:
            out: The maxima, shape (N, C, oH, oW) or (C, oH, oW), dtype of `input`.
            indices: The argmax ih * W + iw, int32, shape of `out`: of equal numbers the first, of NaN the last.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "max_pool2d_with_indices",
            inputs,
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "ceil_mode": ceil_mode,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def max_pool2d_with_indices_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        indices: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every pooled cell to the cell that its index names.

        grad_input[n, c, indices[n, c, oh, ow]] += grad_output[n, c, oh, ow], every other cell is 0; an index counts ih
        * W + iw in the unpadded plane (PyTorch: aten::max_pool2d_with_indices_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW). bfloat16, float16,
                float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). A tuple of sizes will do.
            indices: The argmax, of the shape of `grad_output`, as PyTorch returns it: each index a cell of its own
                window. int32, int64 (fewer on some products).
            kernel_size: Height and width of a window.
            stride: Distance of the windows; empty for the size of the kernel.
            padding: Cells added on both sides, at most half the kernel.
            dilation: Distance of the cells of a window; 1 except on product 950.
            ceil_mode: Rounds the pooled size up, so that a last window may reach beyond the padded plane.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "indices": indices}
        return self.execute(
            "max_pool2d_with_indices_backward",
            inputs,
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "ceil_mode": ceil_mode,
            },
            timeout_s=timeout_s,
            out=out,
        )

    @overload
    def max_pool2d_with_mask(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> MaxPool2dWithMaskOutputs: ...

    @overload
    def max_pool2d_with_mask(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, MaxPool2dWithMaskOutputs]: ...

    @overload
    def max_pool2d_with_mask(
        self: OperatorMethods[int],
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def max_pool2d_with_mask(
        self,
        input: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Takes the maximum of each window of a plane, and keeps a mask for max_pool2d_with_mask_backward.

        out[n, c, oh, ow] = the maximum of self[n, c] over the window; NaN is larger than any number. The padding is
        minus infinity (PyTorch: aten::max_pool2d_with_indices).

        Args:
            input: The tensor, shape (N, C, H, W) or (C, H, W). bfloat16, float16, float32 (fewer on some products).
            kernel_size: Height and width of a window.
            stride: Distance of the windows; empty for the size of the kernel.
            padding: Cells added on both sides, at most half the kernel.
            dilation: Distance of the cells of a window; 1 except on product 950.
            ceil_mode: Rounds the pooled size up, so that a last window may reach beyond the padded plane.

        Returns:
            out: The maxima, shape (N, C, oH, oW) or (C, oH, oW), dtype of `input`.
            indices: The product's own mask, int8, shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "max_pool2d_with_mask",
            inputs,
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "ceil_mode": ceil_mode,
            },
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def max_pool2d_with_mask_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        indices: TensorLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every pooled cell to the cell that it was taken from.

        grad_input[n, c, indices[n, c, oh, ow]] += grad_output[n, c, oh, ow], every other cell is 0; an index counts ih
        * W + iw in the unpadded plane (PyTorch: aten::max_pool2d_with_indices_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW). bfloat16, float16,
                float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). A tuple of sizes will do.
            indices: The argmax of the shape of `grad_output`, as PyTorch returns it (int32, int64), or the device's own
                int8 mask of shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32); `aclgrad.masks` converts. int32,
                int64, int8 (fewer on some products).
            kernel_size: Height and width of a window.
            stride: Distance of the windows; empty for the size of the kernel.
            padding: Cells added on both sides, at most half the kernel.
            dilation: Always 1.
            ceil_mode: Rounds the pooled size up, so that a last window may reach beyond the padded plane.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "indices": indices}
        return self.execute(
            "max_pool2d_with_mask_backward",
            inputs,
            {
                "kernel_size": kernel_size,
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "ceil_mode": ceil_mode,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def max_unpool2d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        indices: TensorLike,
        output_size: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gathers the gradient of the cells that max unpooling wrote.

        out[b, i] = grad_output[b, indices[b, i]], with b over the leading dimensions and i and indices over the last
        two, flattened. Nothing is added up; integers are copied bit by bit (PyTorch: the gradient of
        torch.nn.functional.max_unpool2d).

        Args:
            grad_output: The gradient of the unpooled tensor, shape (N, C, *output_size) or (C, *output_size). float16,
                float32, int16, int32, int64, int8, uint8 (fewer on some products).
            input: The tensor that was unpooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                float16, float32, int16, int32, int64, int8, uint8 (fewer on some products). A tuple of sizes will do.
            indices: Where each value went: positions in the flattened output_size, each at least 0, shape of `input`.
                int32, int64 (fewer on some products).
            output_size: Height and width of the unpooled tensor.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "indices": indices}
        return self.execute("max_unpool2d_backward", inputs, {"output_size": output_size}, timeout_s=timeout_s, out=out)

    def max_unpool3d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        indices: TensorLike,
        output_size: Ints,
        stride: Ints = (1, 1, 1),
        padding: Ints = (0, 0, 0),
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gathers the gradient of the cells that max unpooling wrote.

        out[b, i] = grad_output[b, indices[b, i]], with b over the leading dimensions and i and indices over the last
        three, flattened. Nothing is added up; integers are copied bit by bit (PyTorch: the gradient of
        torch.nn.functional.max_unpool3d).

        Args:
            grad_output: The gradient of the unpooled tensor, shape (N, C, *output_size) or (N, *output_size). float16,
                float32, float64, int16, int32, int64, int8, uint8 (fewer on some products).
            input: The tensor that was unpooled, shape (N, C, D, H, W) or (N, D, H, W); only its shape and dtype matter.
                float16, float32, float64, int16, int32, int64, int8, uint8 (fewer on some products). A tuple of sizes
                will do.
            indices: Where each value went: positions in the flattened output_size, each at least 0, shape of `input`.
                int64 (fewer on some products).
            output_size: Depth, height and width of the unpooled tensor.
            stride: Checked by CANN and otherwise not used.
            padding: Taken by CANN and not used.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "indices": indices}
        return self.execute(
            "max_unpool3d_backward",
            inputs,
            {"output_size": output_size, "stride": stride, "padding": padding},
            timeout_s=timeout_s,
            out=out,
        )

    def maximum(
        self, input: TensorLike, other: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the larger one of two elements, and NaN where one is NaN.

        out = max(self, other) (PyTorch: aten::maximum).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, float16, float32, int32, int64 (fewer on some
                products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, float16, float32, int32,
                int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("maximum", inputs, {}, timeout_s=timeout_s, out=out)

    def mean(
        self,
        input: TensorLike,
        dim: int | Ints = (),
        keep_dim: bool = False,
        dtype: DataType | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Averages a tensor along some of its axes.

        out = the sum of self along dim, divided by the number of its terms (PyTorch: aten::mean.dim).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).
            dim: The axes, each once; a negative one counts from the last. An empty list for all.
            keep_dim: Keeps the axes, with a size of 1.
            dtype: The data type of out; that of self if it is left out.

        Returns: The results: self without the axes, or with a size of 1 for each.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "mean", inputs, {"dim": dim, "keep_dim": keep_dim, "dtype": dtype}, timeout_s=timeout_s, out=out
        )

    def minimum(
        self, input: TensorLike, other: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the smaller one of two elements, and NaN where one is NaN.

        out = min(self, other) (PyTorch: aten::minimum).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, float16, float32, int32, int64 (fewer on some
                products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, float16, float32, int32,
                int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("minimum", inputs, {}, timeout_s=timeout_s, out=out)

    def mish_backward(
        self, grad_output: TensorLike, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of Mish, x * tanh(log(1 + exp(x))).

        With t = tanh(log(1 + exp(self))): grad_input = grad_output * (t + self * sigmoid(self) * (1 - t^2)) (PyTorch:
        aten::mish_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("mish_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def mm(
        self,
        input: TensorLike,
        mat2: TensorLike,
        cube_math_type: int | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Multiplies two matrices.

        out[i, j] = sum over k of self[i, k] * mat2[k, j] (PyTorch: aten::mm).

        Args:
            input: A matrix, the left operand. bfloat16, float16, float32 (fewer on some products).
            mat2: A matrix, the right operand, with the dtype of the left one. bfloat16, float16, float32 (fewer on some
                products).
            cube_math_type: How precisely matrix units multiply float32: 0 in full, 1 in what the product has less, 2 in
                FLOAT16, 3 in HFLOAT32 (11 bits). Left out: 0, but 1 on 310P and 910A, which have FLOAT16 alone. A
                server on a CPU always multiplies in full.

        Returns: The product, with the dtype of the operands.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "mat2": mat2}
        return self.execute("mm", inputs, {"cube_math_type": cube_math_type}, timeout_s=timeout_s, out=out)

    def mse_loss(
        self,
        input: TensorLike,
        target: TensorLike,
        reduction: int = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the squared difference.

        out = (self - target)^2; then the mean if the reduction is 1, or the sum if it is 2 (PyTorch: aten::mse_loss).

        Args:
            input: What is compared with the target. Any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.

        Returns: The losses, with the shape and dtype of self; their mean or sum has the shape ().

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "target": target}
        return self.execute("mse_loss", inputs, {"reduction": reduction}, timeout_s=timeout_s, out=out)

    def mse_loss_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        reduction: int = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the squared difference.

        out = 2 * grad_output * (self - target) (PyTorch: aten::mse_loss_backward); divided by the number of elements of
        self if the reduction is 1

        Args:
            grad_output: The gradient of the loss, broadcast to self: one element, or more. bfloat16, float16, float32
                (fewer on some products).
            input: What the loss was computed of, of any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "target": target}
        return self.execute("mse_loss_backward", inputs, {"reduction": reduction}, timeout_s=timeout_s, out=out)

    def mul(
        self, input: TensorLike, other: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Multiplies two tensors, of which the second one may be a mask.

        out = self * other (PyTorch: aten::mul.Tensor).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, float16, float32, int32, int64 (fewer on some
                products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, bool, float16, float32,
                int32, int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("mul", inputs, {}, timeout_s=timeout_s, out=out)

    def muls(
        self, input: TensorLike, other: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Multiplies a tensor by a number; integers and a float make float32.

        out = self * other (PyTorch: aten::mul.Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            other: The number; a float is rounded to float32.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("muls", inputs, {"other": other}, timeout_s=timeout_s, out=out)

    def neg(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the opposite numbers.

        out = -self (PyTorch: aten::neg).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("neg", inputs, {}, timeout_s=timeout_s, out=out)

    @overload
    def nll_loss(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike,
        reduction: int = 1,
        ignore_index: int = -100,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> NLLLossOutputs: ...

    @overload
    def nll_loss(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike,
        reduction: int = 1,
        ignore_index: int = -100,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, NLLLossOutputs]: ...

    @overload
    def nll_loss(
        self: OperatorMethods[int],
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike,
        reduction: int = 1,
        ignore_index: int = -100,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def nll_loss(
        self,
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike,
        reduction: int = 1,
        ignore_index: int = -100,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the negative log likelihood of a class for each row.

        out = -weight[target] * self[target], and 0 where the target is ignore_index; then the sum if the reduction is
        2, or that divided by total_weight_out if it is 1 (PyTorch: aten::nll_loss_forward).

        Args:
            input: The logarithms of probabilities, (N, C) or (C). bfloat16, float16, float32 (fewer on some products).
            target: The class of each row, (N) or (): 0 to C - 1, or ignore_index. int32, int64, uint8 (fewer on some
                products).
            weight: The weight of each class, (C). bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.
            ignore_index: The target of rows that do not count; it need not be a class.

        Returns:
            out: The losses, with the shape of target; their mean or sum has the shape ().
            total_weight_out: The sum of the weights of all targets, shape (); 0 (NaN of a device) without a reduction.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "target": target, "weight": weight}
        return self.execute(
            "nll_loss",
            inputs,
            {"reduction": reduction, "ignore_index": ignore_index},
            timeout_s=timeout_s,
            out=out,
            outputs=outputs,
        )

    def nll_loss2d_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike,
        total_weight: TensorLike,
        reduction: int = 1,
        ignore_index: int = -100,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the negative log likelihood of a class for each pixel.

        out = -grad_output * weight[target] at the target's class, divided by total_weight if the reduction is 1; 0 at
        other classes, and where the target is ignore_index (PyTorch: aten::nll_loss2d_backward).

        Args:
            grad_output: The gradient of the loss: one value, or (N, H, W) if nothing was reduced. bfloat16, float16,
                float32 (fewer on some products).
            input: The logarithms of probabilities, (N, C, H, W). bfloat16, float16, float32 (fewer on some products).
            target: The class of each, (N, H, W): 0 to C - 1, or ignore_index. int32, int64, uint8 (fewer on some
                products).
            weight: The weight of each class, (C). bfloat16, float16, float32 (fewer on some products).
            total_weight: The sum of the weights of all targets, which the forward pass returned. bfloat16, float16,
                float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.
            ignore_index: The target whose gradient is 0; it need not be a class.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "self": input,
            "target": target,
            "weight": weight,
            "total_weight": total_weight,
        }
        return self.execute(
            "nll_loss2d_backward",
            inputs,
            {"reduction": reduction, "ignore_index": ignore_index},
            timeout_s=timeout_s,
            out=out,
        )

    def nll_loss_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        weight: TensorLike,
        total_weight: TensorLike,
        reduction: int = 1,
        ignore_index: int = -100,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the negative log likelihood of a class for each row.

        out = -grad_output * weight[target] at the target's class, divided by total_weight if the reduction is 1; 0 at
        other classes, and where the target is ignore_index (PyTorch: aten::nll_loss_backward).

        Args:
            grad_output: The gradient of the loss: one value, or (N) or () if nothing was reduced. bfloat16, float16,
                float32 (fewer on some products).
            input: The logarithms of probabilities, (N, C) or (C). bfloat16, float16, float32 (fewer on some products).
            target: The class of each, (N) or (): 0 to C - 1, or ignore_index. int32, int64, uint8 (fewer on some
                products).
            weight: The weight of each class, (C). bfloat16, float16, float32 (fewer on some products).
            total_weight: The sum of the weights of all targets, which the forward pass returned. bfloat16, float16,
                float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.
            ignore_index: The target whose gradient is 0; it need not be a class.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {
            "grad_output": grad_output,
            "self": input,
            "target": target,
            "weight": weight,
            "total_weight": total_weight,
        }
        return self.execute(
            "nll_loss_backward",
            inputs,
            {"reduction": reduction, "ignore_index": ignore_index},
            timeout_s=timeout_s,
            out=out,
        )

    def pow_tensor_scalar(
        self, input: TensorLike, exponent: float, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Raises a tensor to a power; integers and a float make float32.

        out = self^exponent (PyTorch: aten::pow.Tensor_Scalar).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            exponent: The exponent; not negative if the results are integers.

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("pow_tensor_scalar", inputs, {"exponent": exponent}, timeout_s=timeout_s, out=out)

    @overload
    def prelu_backward(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        weight: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> PreluBackwardOutputs: ...

    @overload
    def prelu_backward(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        weight: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, PreluBackwardOutputs]: ...

    @overload
    def prelu_backward(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        weight: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def prelu_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        weight: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of PReLU, which multiplies negative numbers by the weight of their channel.

        grad_input = grad_output where self > 0, else grad_output * weight; grad_weight = the sum of grad_output * self
        where self is not above 0, over all but channels (PyTorch: aten::_prelu_kernel_backward, and its sum).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to: channels are its second axis. bfloat16, float16, float32
                (fewer on some products).
            weight: The slopes of negative numbers: one for all, or one for each channel. bfloat16, float16, float32
                (fewer on some products).

        Returns:
            grad_input: The gradient of self, with its shape and dtype.
            grad_weight: The gradient of weight, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "weight": weight}
        return self.execute("prelu_backward", inputs, {}, timeout_s=timeout_s, out=out, outputs=outputs)

    def reciprocal(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the reciprocals; those of integers are float32.

        out = 1 / self (PyTorch: aten::reciprocal).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("reciprocal", inputs, {}, timeout_s=timeout_s, out=out)

    def reduce_sum(
        self,
        input: TensorLike,
        dims: int | Ints = (),
        keep_dims: bool = False,
        dtype: DataType | None = None,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds up a tensor along some of its axes.

        out = the sum of self along dims (PyTorch: aten::sum.dim_IntList).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).
            dims: The axes, each once; a negative one counts from the last. An empty list for all.
            keep_dims: Keeps the axes, with a size of 1.
            dtype: The data type of out; that of self if it is left out.

        Returns: The results: self without the axes, or with a size of 1 for each.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "reduce_sum", inputs, {"dims": dims, "keep_dims": keep_dims, "dtype": dtype}, timeout_s=timeout_s, out=out
        )

    def reflection_pad1d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        padding: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the cell that it mirrors.

        grad_output at position p of an axis is added to grad_input at q = abs(p - before), or at 2 * (size - 1) - q
        where q is not below size; negative padding crops, and cropped cells get 0 (PyTorch:
        aten::reflection_pad1d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, W + left + right) or without N. bfloat16,
                complex128, complex64, float16, float32, float64 (fewer on some products).
            input: The tensor that was padded, shape (N, C, W) or (C, W); only its shape and dtype matter. bfloat16,
                complex128, complex64, float16, float32, float64 (fewer on some products). A tuple of sizes will do.
            padding: Cells added at the left and right, each less than the size.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("reflection_pad1d_backward", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def reflection_pad2d(
        self, input: TensorLike, padding: Ints, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Adds cells around planes, which are copies of the cells that they mirror.

        out at position p of an axis is self at q = abs(p - before), or at 2 * (size - 1) - q where q is not below size
        (PyTorch: aten::reflection_pad2d).

        Args:
            input: The tensor, shape (N, C, H, W) or (C, H, W). bfloat16, complex128, complex64, float16, float32,
                float64 (fewer on some products).
            padding: Cells added at the left, right, top and bottom, each less than the size.

        Returns: The padded tensor, shape (N, C, H + top + bottom, W + left + right) or without N.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("reflection_pad2d", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def reflection_pad2d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        padding: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the cell that it mirrors.

        grad_output at position p of an axis is added to grad_input at q = abs(p - before), or at 2 * (size - 1) - q
        where q is not below size; negative padding crops, and cropped cells get 0 (PyTorch:
        aten::reflection_pad2d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, H + top + bottom, W + left + right) or without
                N. bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products).
            input: The tensor that was padded, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products). A tuple of sizes
                will do.
            padding: Cells added at the left, right, top and bottom, each less than the size.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("reflection_pad2d_backward", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def reflection_pad3d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        padding: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the cell that it mirrors.

        grad_output at position p of an axis is added to grad_input at q = abs(p - before), or at 2 * (size - 1) - q
        where q is not below size (PyTorch: aten::reflection_pad3d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, D + front + back, H + top + bottom, W + left +
                right) or without N. bfloat16, complex128, complex64, float16, float32, float64 (fewer on some
                products).
            input: The tensor that was padded, shape (N, C, D, H, W) or (C, D, H, W); only its shape and dtype matter.
                bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products). A tuple of sizes
                will do.
            padding: Cells added at the left, right, top, bottom, front and back, each less than the size.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("reflection_pad3d_backward", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def relu(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the numbers, and 0 for those below 0.

        out = max(self, 0) (PyTorch: aten::relu).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("relu", inputs, {}, timeout_s=timeout_s, out=out)

    def replication_pad1d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        padding: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the edge cell that it is a copy of.

        grad_output at position p of an axis is added to grad_input at clamp(p - before, 0, size - 1); negative padding
        crops, and cropped cells get 0 (PyTorch: aten::replication_pad1d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, W + left + right) or without N. bfloat16,
                complex128, complex64, float16, float32, float64 (fewer on some products).
            input: The tensor that was padded, shape (N, C, W) or (C, W); only its shape and dtype matter. bfloat16,
                complex128, complex64, float16, float32, float64 (fewer on some products). A tuple of sizes will do.
            padding: Cells added at the left and right.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("replication_pad1d_backward", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def replication_pad2d(
        self, input: TensorLike, padding: Ints, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Adds cells around planes, which are copies of the nearest edge cell.

        out at position p of an axis is self at clamp(p - before, 0, size - 1) (PyTorch: aten::replication_pad2d).

        Args:
            input: The tensor, shape (N, C, H, W) or (C, H, W). bfloat16, complex128, complex64, float16, float32,
                float64 (fewer on some products).
            padding: Cells added at the left, right, top and bottom.

        Returns: The padded tensor, shape (N, C, H + top + bottom, W + left + right) or without N.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("replication_pad2d", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def replication_pad2d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        padding: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the edge cell that it is a copy of.

        grad_output at position p of an axis is added to grad_input at clamp(p - before, 0, size - 1); negative padding
        crops, and cropped cells get 0 (PyTorch: aten::replication_pad2d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, H + top + bottom, W + left + right) or without
                N. bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products).
            input: The tensor that was padded, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products). A tuple of sizes
                will do.
            padding: Cells added at the left, right, top and bottom.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("replication_pad2d_backward", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    def replication_pad3d_backward(
        self,
        grad_output: TensorLike,
        input: Input,
        padding: Ints,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the edge cell that it is a copy of.

        grad_output at position p of an axis is added to grad_input at clamp(p - before, 0, size - 1) (PyTorch:
        aten::replication_pad3d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, D + front + back, H + top + bottom, W + left +
                right) or without N. bfloat16, complex128, complex64, float16, float32, float64 (fewer on some
                products).
            input: The tensor that was padded, shape (N, C, D, H, W) or (C, D, H, W); only its shape and dtype matter.
                bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products). A tuple of sizes
                will do.
            padding: Cells added at the left, right, top, bottom, front and back.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("replication_pad3d_backward", inputs, {"padding": padding}, timeout_s=timeout_s, out=out)

    @overload
    def rms_norm(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        x: TensorLike,
        gamma: TensorLike,
        epsilon: float = 1e-06,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> RmsNormOutputs: ...

    @overload
    def rms_norm(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        x: TensorLike,
        gamma: TensorLike,
        epsilon: float = 1e-06,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, RmsNormOutputs]: ...

    @overload
    def rms_norm(
        self: OperatorMethods[int],
        x: TensorLike,
        gamma: TensorLike,
        epsilon: float = 1e-06,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def rms_norm(
        self,
        x: TensorLike,
        gamma: TensorLike,
        epsilon: float = 1e-06,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Normalises the elements of each row by the root of their mean square.

        y_out = x * rstd_out * gamma, where rstd_out = 1 / sqrt(mean(x^2) + epsilon) over the sizes of gamma (PyTorch:
        aten::_fused_rms_norm).

        Args:
            x: The tensor, whose last sizes are those of gamma. bfloat16, float16, float32 (fewer on some products).
            gamma: What the normalised rows are multiplied by: float32 (not on 310P), or the dtype of x. bfloat16,
                float16, float32 (fewer on some products).
            epsilon: What is added to each mean square; rounded to float32.

        Returns:
            y_out: The normalised tensor, with the shape and dtype of x.
            rstd_out: 1 / sqrt(mean square + epsilon) of each row, float32; the sizes of x before gamma's, then ones.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"x": x, "gamma": gamma}
        return self.execute("rms_norm", inputs, {"epsilon": epsilon}, timeout_s=timeout_s, out=out, outputs=outputs)

    @overload
    def rms_norm_grad(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        grad_output: TensorLike,
        input: TensorLike,
        rstd: TensorLike,
        gamma: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> RmsNormGradOutputs: ...

    @overload
    def rms_norm_grad(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        grad_output: TensorLike,
        input: TensorLike,
        rstd: TensorLike,
        gamma: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, RmsNormGradOutputs]: ...

    @overload
    def rms_norm_grad(
        self: OperatorMethods[int],
        grad_output: TensorLike,
        input: TensorLike,
        rstd: TensorLike,
        gamma: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def rms_norm_grad(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        rstd: TensorLike,
        gamma: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of root mean square normalisation: of the input and of gamma.

        With x = input * rstd and g = grad_output * gamma: dx = rstd * (g - x * mean(g * x)), where mean() is over the
        sizes of gamma; dgamma is the sum over all rows of grad_output * x (PyTorch: aten::_fused_rms_norm_backward).

        Args:
            grad_output: The gradient of the normalised tensor, with its shape and dtype. bfloat16, float16, float32
                (fewer on some products).
            input: The tensor that was normalised, whose last sizes are those of gamma. bfloat16, float16, float32
                (fewer on some products).
            rstd: 1 / sqrt(mean square + eps) of each row, with the sizes of the input before those of gamma, and 1 for
                any of the others. float32 (fewer on some products).
            gamma: What the normalised rows were multiplied by: float32 (not on 310P), or the dtype of input. bfloat16,
                float16, float32 (fewer on some products).

        Returns:
            dx: The gradient of input, with its shape and dtype.
            dgamma: The gradient of gamma: float32, with its shape.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "input": input, "rstd": rstd, "gamma": gamma}
        return self.execute("rms_norm_grad", inputs, {}, timeout_s=timeout_s, out=out, outputs=outputs)

    def roi_align_v2(
        self,
        input: TensorLike,
        boxes: TensorLike,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        aligned: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Pools boxes of images: each bin is the mean of samples between cells.

        A bin averages sampling_ratio x sampling_ratio bilinear samples (with 0: ceil(bin size) per axis). Samples
        beyond [-1, H] x [-1, W] are 0 (torchvision: ops.roi_align).

        Args:
            input: The images, shape (N, C, H, W). float16, float32 (fewer on some products).
            boxes: The boxes, shape (K, 5): image, x1, y1, x2, y2, before scaling. float16, float32 (fewer on some
                products).
            pooled_height: Bins of a box along its height.
            pooled_width: Bins of a box along its width.
            spatial_scale: What box coordinates are multiplied by, as float32.
            sampling_ratio: Samples of a bin along each axis; 0 follows the size of the bin.
            aligned: Shifts boxes by half a cell, so that cells are points.

        Returns: The pooled boxes, shape (K, C, pooled_height, pooled_width).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "boxes": boxes}
        return self.execute(
            "roi_align_v2",
            inputs,
            {
                "pooled_height": pooled_height,
                "pooled_width": pooled_width,
                "spatial_scale": spatial_scale,
                "sampling_ratio": sampling_ratio,
                "aligned": aligned,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def roi_align_v2_backward(
        self,
        grad_output: TensorLike,
        boxes: TensorLike,
        input_shape: Ints,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        aligned: bool = False,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Spreads the gradient of every pooled bin over the cells that its samples were interpolated from.

        A bin averages sampling_ratio x sampling_ratio bilinear samples (with 0: ceil(bin size) per axis); each sample
        gives its share of the bin's gradient to its four neighbours by their weights. Samples beyond [-1, H] x [-1, W]
        and boxes of images that do not exist count for nothing (torchvision: ops.roi_align).

        Args:
            grad_output: The gradient of the pooled boxes, shape (K, C, pooled_height, pooled_width). float32 (fewer on
                some products).
            boxes: The boxes, shape (K, 5): image, x1, y1, x2, y2, before scaling. float32 (fewer on some products).
            input_shape: The shape (N, C, H, W) of the tensor that was pooled.
            pooled_height: Bins of a box along its height.
            pooled_width: Bins of a box along its width.
            spatial_scale: What box coordinates are multiplied by, as float32.
            sampling_ratio: Samples of a bin along each axis; 0 follows the size of the bin.
            aligned: Shifts boxes by half a cell, so that cells are points.

        Returns: The gradient of the pooled tensor, of input_shape.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "boxes": boxes}
        return self.execute(
            "roi_align_v2_backward",
            inputs,
            {
                "input_shape": input_shape,
                "pooled_height": pooled_height,
                "pooled_width": pooled_width,
                "spatial_scale": spatial_scale,
                "sampling_ratio": sampling_ratio,
                "aligned": aligned,
            },
            timeout_s=timeout_s,
            out=out,
        )

    @overload
    def rotary_position_embedding_grad(
        self: OperatorMethods[Array] | OperatorMethods[Handle],
        dy: TensorLike,
        cos: TensorLike,
        sin: TensorLike,
        x: TensorLike | None = None,
        mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> RotaryPositionEmbeddingGradOutputs: ...

    @overload
    def rotary_position_embedding_grad(
        self: OperatorMethods[Coroutine[Any, Any, Array]],
        dy: TensorLike,
        cos: TensorLike,
        sin: TensorLike,
        x: TensorLike | None = None,
        mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Coroutine[Any, Any, RotaryPositionEmbeddingGradOutputs]: ...

    @overload
    def rotary_position_embedding_grad(
        self: OperatorMethods[int],
        dy: TensorLike,
        cos: TensorLike,
        sin: TensorLike,
        x: TensorLike | None = None,
        mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> int: ...

    def rotary_position_embedding_grad(
        self,
        dy: TensorLike,
        cos: TensorLike,
        sin: TensorLike,
        x: TensorLike | None = None,
        mode: int = 0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Outputs | None = None,
        outputs: Sequence[str] | None = None,
    ) -> Any:
        """Gives the gradients of the rotary position embedding: of x and, if x is given, of cos and sin.

        With y = x * cos + rotate(x) * sin, where rotate makes (-x2, x1) of the halves (x1, x2) of the last axis, or of
        each even element and the next one: dx = (cos1 * dy1 + sin2 * dy2, cos2 * dy2 - sin1 * dy1); dcos is the sum of
        dy * x, and dsin that of dy * rotate(x), over the axes that share a row of cos (torch_npu:
        npu_rotary_mul_backward).

        Args:
            dy: The gradient of y: (B, N, S, D), (B, S, N, D) or (S, B, N, D). bfloat16, float16, float32 (fewer on some
                products).
            cos: The cosines, shaped as dy with 1 along the axes that share them, of its dtype. bfloat16, float16,
                float32 (fewer on some products).
            sin: The sines, with the shape and dtype of cos. bfloat16, float16, float32 (fewer on some products).
            x: The tensor that was rotated, with the shape and dtype of dy. Left out: there is only dx, which has to be
                asked for alone. bfloat16, float16, float32 (fewer on some products).
            mode: What rotates together: 0 the halves of the last axis, 1 each even element and the next one.

        Returns:
            dx: The gradient of x, with the shape and dtype of dy.
            dcos: The gradient of cos, with its shape and dtype.
            dsin: The gradient of sin, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"dy": dy, "cos": cos, "sin": sin, "x": x}
        return self.execute(
            "rotary_position_embedding_grad", inputs, {"mode": mode}, timeout_s=timeout_s, out=out, outputs=outputs
        )

    def rsqrt(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the reciprocals of square roots; those of integers are float32.

        out = 1 / sqrt(self), NaN below 0 (PyTorch: aten::rsqrt).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("rsqrt", inputs, {}, timeout_s=timeout_s, out=out)

    def s_where(
        self,
        condition: TensorLike,
        input: TensorLike,
        other: TensorLike,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Takes elements of the first tensor where a condition holds, and of the second one elsewhere.

        out = self where condition is not 0, else other (PyTorch: aten::where.self).

        Args:
            condition: Where to take self. Any shape that broadcasts. bool, uint8 (fewer on some products).
            input: The first tensor. Any shape that broadcasts. bfloat16, bool, float16, float32, int32, int64 (fewer on
                some products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, bool, float16, float32,
                int32, int64 (fewer on some products).

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"condition": condition, "self": input, "other": other}
        return self.execute("s_where", inputs, {}, timeout_s=timeout_s, out=out)

    def scatter_add(
        self,
        input: TensorLike,
        index: TensorLike,
        src: TensorLike,
        dim: int,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds elements to those of a tensor, each at a position of its own along one axis.

        out = self, and along the axis out[index[i]] += src[i]; along others, all have the same place. Integers wrap
        around (PyTorch: aten::scatter_add).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).
            index: The positions; at most as large as self in all other axes. From 0 to the size of the axis. int32,
                int64 (fewer on some products).
            src: The elements, with the dtype of self; at least as large as index. bfloat16, float16, float32, int32,
                int64 (fewer on some products).
            dim: The axis of self; a negative one counts from the last.

        Returns: The sums, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "index": index, "src": src}
        return self.execute("scatter_add", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def sigmoid(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the logistic sigmoid.

        out = 1 / (1 + exp(-self)) (PyTorch: aten::sigmoid).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("sigmoid", inputs, {}, timeout_s=timeout_s, out=out)

    def sigmoid_backward(
        self, grad_output: TensorLike, output: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of the logistic sigmoid.

        grad_input = grad_output * (1 - output) * output (PyTorch: aten::sigmoid_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of output. bfloat16, float16, float32,
                float64 (fewer on some products).
            output: What the function returned. Any shape. bfloat16, float16, float32, float64 (fewer on some products).

        Returns: The gradient of the input, with the shape and dtype of output.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "output": output}
        return self.execute("sigmoid_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def silu(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the SiLU.

        out = self * sigmoid(self) (PyTorch: aten::silu).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("silu", inputs, {}, timeout_s=timeout_s, out=out)

    def silu_backward(
        self, grad_output: TensorLike, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of SiLU, x * sigmoid(x).

        With s = sigmoid(self): grad_input = grad_output * s * (1 + self * (1 - s)) (PyTorch: aten::silu_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("silu_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def smooth_l1_loss(
        self,
        input: TensorLike,
        target: TensorLike,
        reduction: int = 1,
        beta: float = 1.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the absolute difference, which is squared near 0.

        With d = |self - target|: result = d^2 / (2 * beta) where d < beta, else d - beta / 2; then the mean if the
        reduction is 1, or the sum if it is 2 (PyTorch: aten::smooth_l1_loss).

        Args:
            input: What is compared with the target. Any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.
            beta: The size of differences below which they are squared; rounded to float32.

        Returns: The losses, with the shape and dtype of self; their mean or sum has the shape ().

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "target": target}
        return self.execute(
            "smooth_l1_loss", inputs, {"reduction": reduction, "beta": beta}, timeout_s=timeout_s, out=out
        )

    def smooth_l1_loss_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        target: TensorLike,
        reduction: int = 1,
        beta: float = 1.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of the absolute difference, which is squared near 0.

        With d = self - target: grad_input = grad_output * d / beta where |d| < beta, else grad_output * sign(d)
        (PyTorch: aten::smooth_l1_loss_backward); divided by the number of elements of self if the reduction is 1

        Args:
            grad_output: The gradient of the loss, broadcast to self: one element, or more. bfloat16, float16, float32
                (fewer on some products).
            input: What the loss was computed of, of any shape. bfloat16, float16, float32 (fewer on some products).
            target: The target, broadcast to self. bfloat16, float16, float32 (fewer on some products).
            reduction: What the loss was made of its elements: 0 nothing, 1 their mean, 2 their sum.
            beta: The size of differences below which they are squared; rounded to float32.

        Returns: The gradient of self, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input, "target": target}
        return self.execute(
            "smooth_l1_loss_backward", inputs, {"reduction": reduction, "beta": beta}, timeout_s=timeout_s, out=out
        )

    def softmax(
        self, input: TensorLike, dim: int, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives softmax along one axis.

        out = exp(self) / sum(exp(self)), where sum() is along dim (PyTorch: aten::softmax.int).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).
            dim: The axis along which it is computed; a negative one counts from the last.

        Returns: The result, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("softmax", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def softmax_backward(
        self,
        grad_output: TensorLike,
        output: TensorLike,
        dim: int,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of softmax along one axis.

        out = output * (grad_output - sum(grad_output * output)), where sum() is along dim (PyTorch:
        aten::_softmax_backward_data).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of output. bfloat16, float16, float32
                (fewer on some products).
            output: What softmax returned. Any shape. bfloat16, float16, float32 (fewer on some products).
            dim: The axis along which it was computed; a negative one counts from the last.

        Returns: The gradient of the input, with the shape and dtype of output.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "output": output}
        return self.execute("softmax_backward", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def softplus_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        beta: float = 1.0,
        threshold: float = 20.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of softplus, log(1 + exp(beta * self)) / beta, which is linear above a threshold.

        grad_input = grad_output where beta * self > threshold, else grad_output * sigmoid(beta * self) (PyTorch:
        aten::softplus_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            beta: What numbers are multiplied by; rounded to float32.
            threshold: The products above which the function is linear; rounded to float32.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute(
            "softplus_backward", inputs, {"beta": beta, "threshold": threshold}, timeout_s=timeout_s, out=out
        )

    def softshrink_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        lambd: float = 0.5,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of soft shrink, which is 0 near 0.

        grad_input = 0 where -lambd <= self <= lambd, else grad_output (PyTorch: aten::softshrink_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            lambd: The largest size of numbers that become 0; rounded to float32.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("softshrink_backward", inputs, {"lambd": lambd}, timeout_s=timeout_s, out=out)

    def sqrt(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the square roots; those of integers are float32.

        out = sqrt(self), NaN below 0 (PyTorch: aten::sqrt).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32, int32, int64 (fewer on some products).

        Returns: The results, with the shape of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("sqrt", inputs, {}, timeout_s=timeout_s, out=out)

    def sub(
        self,
        input: TensorLike,
        other: TensorLike,
        alpha: float = 1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Subtracts the second tensor, multiplied by a number, from the first one.

        out = self - alpha * other (PyTorch: aten::sub.Tensor).

        Args:
            input: The first tensor. Any shape that broadcasts. bfloat16, float16, float32, int32, int64 (fewer on some
                products).
            other: The second one, of any of the types. Any shape that broadcasts. bfloat16, float16, float32, int32,
                int64 (fewer on some products).
            alpha: What other is multiplied by: an integer for integers.

        Returns: The results, with the shape that the inputs are broadcast to.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input, "other": other}
        return self.execute("sub", inputs, {"alpha": alpha}, timeout_s=timeout_s, out=out)

    def swi_glu(
        self, x: TensorLike, dim: int = -1, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives SwiGLU, SiLU(A) * B, where A and B are the halves of x along dim.

        out = A * sigmoid(A) * B (PyTorch: silu(a) * b with a, b = x.chunk(2, dim)).

        Args:
            x: The tensor: A, then B, along dim. bfloat16, float16, float32 (fewer on some products).
            dim: The axis that is halved; negative: counted from the end.

        Returns: The result, shaped as x with half of dim, with its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"x": x}
        return self.execute("swi_glu", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def swi_glu_grad(
        self,
        grad_output: TensorLike,
        x: TensorLike,
        dim: int = -1,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of SwiGLU, SiLU(A) * B, where A and B are the halves of x along dim.

        With s = sigmoid(A): the first half of out is grad_output * B * s * (1 + A * (1 - s)), the second grad_output *
        A * s (PyTorch: the gradient of silu(a) * b with a, b = x.chunk(2, dim)).

        Args:
            grad_output: The gradient of the result, shaped as x with half of dim. bfloat16, float16, float32 (fewer on
                some products).
            x: The tensor that the function was applied to: A, then B, along dim. bfloat16, float16, float32 (fewer on
                some products).
            dim: The axis that is halved; negative: counted from the end.

        Returns: The gradient of x, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "x": x}
        return self.execute("swi_glu_grad", inputs, {"dim": dim}, timeout_s=timeout_s, out=out)

    def tanh(self, input: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None) -> Result:
        """Gives the hyperbolic tangent.

        out = tanh(self) (PyTorch: aten::tanh).

        Args:
            input: The tensor. Any shape. bfloat16, float16, float32 (fewer on some products).

        Returns: The results, with the shape of self and its dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute("tanh", inputs, {}, timeout_s=timeout_s, out=out)

    def tanh_backward(
        self, grad_output: TensorLike, output: TensorLike, *, timeout_s: Timeout = DEFAULT, out: Output | None = None
    ) -> Result:
        """Gives the gradient of the hyperbolic tangent.

        grad_input = grad_output * (1 - output^2) (PyTorch: aten::tanh_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of output. bfloat16, float16, float32,
                float64 (fewer on some products).
            output: What the function returned. Any shape. bfloat16, float16, float32, float64 (fewer on some products).

        Returns: The gradient of the input, with the shape and dtype of output.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "output": output}
        return self.execute("tanh_backward", inputs, {}, timeout_s=timeout_s, out=out)

    def threshold_backward(
        self,
        grad_output: TensorLike,
        input: TensorLike,
        threshold: float,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of a threshold: that of the result where the input is above it, and of ReLU with 0.

        out = grad_output where self > threshold, else 0; NaN is above (PyTorch: aten::threshold_backward).

        Args:
            grad_output: The gradient of the result, with the shape and dtype of self. bfloat16, float16, float32 (fewer
                on some products).
            input: The tensor that the function was applied to. Any shape. bfloat16, float16, float32 (fewer on some
                products).
            threshold: The largest number whose gradient is 0; rounded to float32.

        Returns: The gradient of self, with the shape and dtype of self.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output, "self": input}
        return self.execute("threshold_backward", inputs, {"threshold": threshold}, timeout_s=timeout_s, out=out)

    def upsample_bilinear2d(
        self,
        input: TensorLike,
        output_size: Ints,
        align_corners: bool = False,
        scales_h: float = 0.0,
        scales_w: float = 0.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Upsamples planes to a size: each new cell is the mean of the four around its place, by its distances.

        along each axis of n cells and o outputs, output i lies at x = max((i + 0.5) * n / o - 0.5, 0), or with
        align_corners at i * (n - 1) / (o - 1), between the cells floor(x) and the next one, or the last twice (PyTorch:
        aten::upsample_bilinear2d).

        Args:
            input: The tensor, shape (N, C, H, W). bfloat16, float16, float32 (fewer on some products).
            output_size: oH and oW, the upsampled size.
            align_corners: Whether the corners of both tensors lie on each other.
            scales_h: The scale of rows: oH / H; 0 for the ratio of the sizes.
            scales_w: The scale of columns: oW / W; 0 for the ratio of the sizes.

        Returns: The upsampled tensor, shape (N, C, oH, oW).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "upsample_bilinear2d",
            inputs,
            {"output_size": output_size, "align_corners": align_corners, "scales_h": scales_h, "scales_w": scales_w},
            timeout_s=timeout_s,
            out=out,
        )

    def upsample_bilinear2d_backward_v2(
        self,
        grad_output: TensorLike,
        output_size: Ints,
        input_size: Ints,
        align_corners: bool = False,
        scales_h: float = 0.0,
        scales_w: float = 0.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Gives the gradient of every upsampled cell to the four cells around its place, by its distances.

        Along each axis of n cells and o outputs, output i lies at x = max((i + 0.5) * n / o - 0.5, 0), or with
        align_corners at i * (n - 1) / (o - 1); it gives 1 - f of its gradient to cell floor(x), and f, the fraction of
        x, to the next one, or to the last (PyTorch: aten::upsample_bilinear2d_backward).

        Args:
            grad_output: The gradient of the upsampled tensor, shape (N, C, oH, oW). bfloat16, float16, float32 (fewer
                on some products).
            output_size: oH and oW, the upsampled size.
            input_size: N, C, H and W, the shape of the result.
            align_corners: Whether the corners of both tensors lie on each other.
            scales_h: The scale of rows as the forward call was given it: oH / H; 0 for the ratio of the sizes.
            scales_w: The scale of columns as the forward call was given it: oW / W; 0 for the ratio of the sizes.

        Returns: The gradient, of shape `input_size` and the dtype of `grad_output`.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output}
        return self.execute(
            "upsample_bilinear2d_backward_v2",
            inputs,
            {
                "output_size": output_size,
                "input_size": input_size,
                "align_corners": align_corners,
                "scales_h": scales_h,
                "scales_w": scales_w,
            },
            timeout_s=timeout_s,
            out=out,
        )

    def upsample_nearest2d_backward(
        self,
        grad_output: TensorLike,
        output_size: Ints,
        input_size: Ints,
        scales_h: float = 0.0,
        scales_w: float = 0.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Adds the gradient of every upsampled cell to the cell that it is a copy of.

        grad_output[y, x] is added to grad_input[min(floor(y * (H / oH)), H - 1), min(floor(x * (W / oW)), W - 1)], with
        the ratio and the product in float32; other cells are 0 (PyTorch: aten::upsample_nearest2d_backward).

        Args:
            grad_output: The gradient of the upsampled tensor, shape (N, C, oH, oW). bfloat16, float16, float32 (fewer
                on some products).
            output_size: oH and oW, the upsampled size.
            input_size: N, C, H and W, the shape of the result.
            scales_h: The scale of rows as the forward call was given it: oH / H; 0 for the ratio of the sizes.
            scales_w: The scale of columns as the forward call was given it: oW / W; 0 for the ratio of the sizes.

        Returns: The gradient, of shape `input_size` and the dtype of `grad_output`.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"grad_output": grad_output}
        return self.execute(
            "upsample_nearest2d_backward",
            inputs,
            {"output_size": output_size, "input_size": input_size, "scales_h": scales_h, "scales_w": scales_w},
            timeout_s=timeout_s,
            out=out,
        )

    def upsample_nearest2d_v2(
        self,
        input: TensorLike,
        output_size: Ints,
        scales_h: float = 0.0,
        scales_w: float = 0.0,
        *,
        timeout_s: Timeout = DEFAULT,
        out: Output | None = None,
    ) -> Result:
        """Upsamples planes to a size: each cell is copied.

        out[y, x] = self[min(floor(y * (H / oH)), H - 1), min(floor(x * (W / oW)), W - 1)], with the ratio and the
        product in float32 (PyTorch: aten::upsample_nearest2d).

        Args:
            input: The tensor, shape (N, C, H, W). bfloat16, float16, float32 (fewer on some products).
            output_size: oH and oW, the upsampled size.
            scales_h: The scale of rows: oH / H; 0 for the ratio of the sizes.
            scales_w: The scale of columns: oW / W; 0 for the ratio of the sizes.

        Returns: The upsampled tensor, shape (N, C, oH, oW).

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs: Inputs = {"self": input}
        return self.execute(
            "upsample_nearest2d_v2",
            inputs,
            {"output_size": output_size, "scales_h": scales_h, "scales_w": scales_w},
            timeout_s=timeout_s,
            out=out,
        )
