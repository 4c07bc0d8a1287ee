"""One method for each operator. Generated from the operator table by `make generate`; do not edit."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from aclgrad._planning import Input
from aclgrad.operators.attributes import AttributeLike

Result = TypeVar("Result")
Ints = Sequence[int] | np.ndarray[Any, Any]


class OperatorMethods(ABC, Generic[Result]):
    """The operators as methods; `timeout_s` overrides the client's time limit for one call.

    A method returns the gradient, an awaitable of it, or its position in a batch, depending on the subclass.
    """

    @abstractmethod
    def execute(
        self,
        name: str,
        inputs: Mapping[str, Input],
        attributes: Mapping[str, AttributeLike] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Calls an operator by its wire names."""

    def adaptive_avg_pool2d_backward(
        self, grad_output: ArrayLike, input: ArrayLike | tuple[int, ...], *, timeout_s: float | None = None
    ) -> Result:
        """Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.

        Output cell (i, j) averaged the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike; each of these
        cells receives grad_output[i, j] divided by their number, and overlapping windows add up (PyTorch:
        aten::_adaptive_avg_pool2d_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW); any oH and oW.
                bfloat16, float16, float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). Only the shape is sent, unless the server needs the
                values; a tuple of sizes stands for it, and its dtype is then that of the arrays.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs = {"grad_output": grad_output, "self": input}
        return self.execute("adaptive_avg_pool2d_backward", inputs, {}, timeout_s=timeout_s)

    def max_pool2d_with_mask_backward(
        self,
        grad_output: ArrayLike,
        input: ArrayLike | tuple[int, ...],
        indices: ArrayLike,
        kernel_size: int | Ints,
        stride: int | Ints = (),
        padding: int | Ints = (0,),
        dilation: int | Ints = (1,),
        ceil_mode: bool = False,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Adds the gradient of every pooled cell to the cell that it was taken from.

        grad_input[n, c, indices[n, c, oh, ow]] += grad_output[n, c, oh, ow], every other cell is 0; an index counts ih
        * W + iw in the unpadded plane (PyTorch: aten::max_pool2d_with_indices_backward).

        Args:
            grad_output: The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW). bfloat16, float16,
                float32 (fewer on some products).
            input: The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, float16, float32 (fewer on some products). Only the shape is sent, unless the server needs the
                values; a tuple of sizes stands for it, and its dtype is then that of the arrays.
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
        inputs = {"grad_output": grad_output, "self": input, "indices": indices}
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
        )

    def max_unpool3d_backward(
        self,
        grad_output: ArrayLike,
        input: ArrayLike | tuple[int, ...],
        indices: ArrayLike,
        output_size: Ints,
        stride: Ints = (1, 1, 1),
        padding: Ints = (0, 0, 0),
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Gathers the gradient of the cells that max unpooling wrote.

        out[b, i] = grad_output[b, indices[b, i]], with b over the leading dimensions and i and indices over the last
        three, flattened. Nothing is added up; integers are copied bit by bit (PyTorch: the gradient of
        torch.nn.functional.max_unpool3d).

        Args:
            grad_output: The gradient of the unpooled tensor, shape (N, C, *output_size) or (N, *output_size). float16,
                float32, float64, int16, int32, int64, int8, uint8 (fewer on some products).
            input: The tensor that was unpooled, shape (N, C, D, H, W) or (N, D, H, W); only its shape and dtype matter.
                float16, float32, float64, int16, int32, int64, int8, uint8 (fewer on some products). Only the shape is
                sent, unless the server needs the values; a tuple of sizes stands for it, and its dtype is then that of
                the arrays.
            indices: Where each value went: positions in the flattened output_size, each at least 0, shape of `input`.
                int64 (fewer on some products).
            output_size: Depth, height and width of the unpooled tensor.
            stride: Checked by CANN and otherwise not used.
            padding: Taken by CANN and not used.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs = {"grad_output": grad_output, "self": input, "indices": indices}
        return self.execute(
            "max_unpool3d_backward",
            inputs,
            {"output_size": output_size, "stride": stride, "padding": padding},
            timeout_s=timeout_s,
        )

    def replication_pad2d_backward(
        self,
        grad_output: ArrayLike,
        input: ArrayLike | tuple[int, ...],
        padding: Ints,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Adds the gradient of every padded cell to the edge cell that it is a copy of.

        grad_output[y, x] is added to grad_input[clamp(y - top, 0, H - 1), clamp(x - left, 0, W - 1)]; negative padding
        crops, and cropped cells get 0 (PyTorch: aten::replication_pad2d_backward).

        Args:
            grad_output: The gradient of the padded tensor, shape (N, C, H + top + bottom, W + left + right) or without
                N. bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products).
            input: The tensor that was padded, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.
                bfloat16, complex128, complex64, float16, float32, float64 (fewer on some products). Only the shape is
                sent, unless the server needs the values; a tuple of sizes stands for it, and its dtype is then that of
                the arrays.
            padding: Cells added at the left, right, top and bottom.

        Returns: The gradient of `input`, with its shape and dtype.

        Raises: InvalidFieldError where dtypes, shapes or attributes do not fit; else other AclgradErrors.
        """
        inputs = {"grad_output": grad_output, "self": input}
        return self.execute("replication_pad2d_backward", inputs, {"padding": padding}, timeout_s=timeout_s)

    def roi_align_v2_backward(
        self,
        grad_output: ArrayLike,
        boxes: ArrayLike,
        input_shape: Ints,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float = 1.0,
        sampling_ratio: int = 0,
        aligned: bool = False,
        *,
        timeout_s: float | None = None,
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
        inputs = {"grad_output": grad_output, "boxes": boxes}
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
        )
