"""aclnnGridSampler2DBackward: the gradients of sampling an image at the points of a grid.

Devices follow the definition but for three things. The 950 finds the places of float16 and bfloat16 points in their own
type, and adds up `input_grad` in it. Sums change their order from call to call, except for float64 and on Atlas
training products. A reflected place is anywhere if it was 2^31 or more images away, where float32 has no cells.

Grids may hold any numbers: the definition says what becomes of those that are not finite, as devices do. PyTorch's CPU
kernel crashes on some of them.

CANN has bicubic interpolation from 9.1 on. No device says whether its CANN has it, so it is refused.
"""

from typing import Final

from aclgrad.operators.families.grid_sampler.spec import grid_sampler_spec

_BICUBIC: Final = 2

SPEC = grid_sampler_spec(2, refused_mode=_BICUBIC)
