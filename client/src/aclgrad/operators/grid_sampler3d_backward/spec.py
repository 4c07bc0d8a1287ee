"""aclnnGridSampler3DBackward: the gradients of sampling a volume at the points of a grid.

Devices follow the definition but for three things. The 950 finds the places of float16 and bfloat16 points in their own
type, and adds up `input_grad` in it, unless there are 128 channels or more. Sums change their order from call to call,
except for float64, above 2048 channels (A2, A3), and on Atlas training products. A reflected place is anywhere if it
was 2^31 or more volumes away, where float32 has no cells.

Grids may hold any numbers: the definition says what becomes of those that are not finite, as devices and PyTorch do.
"""

from aclgrad.operators.families.grid_sampler.spec import grid_sampler_spec

SPEC = grid_sampler_spec(3)
