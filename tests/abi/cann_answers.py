"""CANN's answers to what the operator table would refuse, or take, and the codes that it has for them."""

from fnmatch import fnmatch

from aclgrad.products import Product

from .phase_one import INVALID, NULL, TILING

NO_KERNEL = 561003
NO_TENSOR = 561103

Patterns = str | tuple[str, ...]
Answers = tuple[tuple[Patterns, Patterns, int], ...]

CHECKED_FORMATS = (
    "adaptive_*",
    "avg_pool*",
    "batch_norm*",
    "convolution*",
    "embedding_*",
    "group_norm",
    "max_pool*",
    "*_pad?d*",
    "roi_*",
    "upsample_*",
)
"""Operators that take tensors in some formats alone."""
LOSSES = ("binary_cross_entropy_*backward", "kl_div_*", "l1_loss_*", "mse_loss_*", "smooth_l1_loss_*")
"""Gradients of losses of each element by itself."""
BROADCASTING = (
    "gelu_*", "*shrink_*", "l1_loss_*", "leaky_relu_*", "mish_*", "mse_loss_*", "sigmoid_*", "smooth_l1_loss_*",
    "tanh_*", "threshold_*",
)  # fmt: skip
MIXING = (
    *LOSSES, "gelu_*", "hardshrink_*", "hardsigmoid_*", "leaky_relu_*", "mish_*", "sigmoid_*", "softplus_*",
)  # fmt: skip
"""Operators that take tensors of different types."""

PRODUCTS = ("*mm", "*matmul", "batch_mat_mul")
OF_TWO = ("add", "sub", "mul", "div", "maximum", "minimum", "s_where", "eq_tensor", "gt_tensor")
"""Functions of two tensors, which are broadcast."""
OF_ANY = ("add", "sub", "mul", "maximum", "minimum", "abs", "pow_tensor_scalar", "clamp", "??_tensor", "??_scalar")
"""Functions of elements that take integers of any size."""
REAL = ("div", "exp", "log", "sqrt", "rsqrt", "reciprocal", "adds", "muls", "divs", "sigmoid", "leaky_relu", "neg")
INNER_NULL = 561103
REDUCTIONS = ("amax", "mean", "reduce_sum")
GATHERING = ("embedding", "gather", "index_add", "index_select", "scatter_add")
LATE = 561103
"""Of what a device finds when it copies its result."""

CANN_ANSWERS: Answers = (
    # The host library follows no private format, where CANN may.
    ((*PRODUCTS, *REDUCTIONS, *GATHERING), "FRACTAL_NZ", INVALID),
    # The addend is broadcast.
    ("addmm", "self with a dim less", 0),
    # Sums may be of another type, and of more terms.
    (REDUCTIONS, "self with dim 0 one larger", 0),
    (("mean", "reduce_sum"), "self of FLOAT16", 0),
    ("mean", ("DOUBLE", "out of FLOAT16"), 0),
    # So may numbers be that are compared, taken or added.
    (("amax", *GATHERING), ("DOUBLE", "INT8", "INT16", "UINT8", "BOOL"), 0),
    (("embedding", "index_select", "scatter_add"), ("COMPLEX64", "COMPLEX128"), 0),
    # There may be more to take from, and more to add.
    ("embedding", "weight with dim 0 *", 0),
    (("gather", "index_select"), "self with dim [01] *", 0),
    ("index_select", "self with dim 1 *", INVALID),
    ("scatter_add", "src with dim *", 0),
    ("embedding", ("weight with dim 1 *", "weight with a dim *", "out with dim 2 *"), LATE),
    # The documents exclude it on some products, the checks on none.
    (("grid_sampler3d_*", "layer_norm_*"), "BF16", 0),
    # These lengths and masks are checked together with the null pointers.
    ("max_pool2d_with_mask_*", "kernelSize of [03]", NULL),
    (("batch_norm_*", "convolution_*"), "outputMask of *", NULL),
    # So are null pointers to the mask and to outputs, the other way round.
    ("group_norm_*", ("outputMask null", "grad[IGB]* null", "null and wrong"), INVALID),
    ("group_norm_*", "grad* not wanted and null", 0),
    # Nothing is checked then, and nothing done.
    ("grid_sampler*", "outputMask null", 0),
    # Types of CANN's that the operator table leaves out, and those that CANN casts.
    ("sigmoid_*", ("COMPLEX*", "gradInput of COMPLEX128"), 0),
    ("threshold_*", ("INT32", "*INT8"), 0),
    ("max_unpool2d_*", "BOOL", 0),
    ("max_unpool2d_*", "out of FLOAT16", NO_KERNEL),
    ("embedding_*", ("FLOAT* indices", "INT* indices", "UINT8 indices", "BOOL indices", "DOUBLE indices"), 0),
    ("embedding_*", "* of FLOAT*", 0),
    (MIXING, "* of FLOAT16", 0),
    ("gelu_backward_v2", "gradInput of FLOAT16", INVALID),
    ("elu_*", "gradInput of FLOAT16", 0),
    ("mse_loss_*", "[!o]* of FLOAT16", INVALID),
    ("binary_cross_entropy_with_logits_*", ("target of FLOAT16", "out of FLOAT16"), INVALID),
    ("softplus_*", ("DOUBLE", "self of INT32"), 0),
    ("*_pad2d", ("INT*", "UINT8"), 0),
    ("reflection_pad2d", "BOOL", 0),
    ("upsample_nearest2d_v2", ("DOUBLE", "UINT8"), 0),
    # Nothing of it is looked at.
    ("log_sigmoid_*", "buffer [wo]*", 0),
    ("ctc_*", ("FLOAT16", "BF16", "FLOAT* targets", "BOOL targets", "targets of FLOAT16"), 0),
    ("avg_pool2d_*", "self of FLOAT16", 0),
    ("batch_norm_*", "* of FLOAT16", 0),
    ("batch_norm_*", ("gradOut of FLOAT16", "input of FLOAT16"), INVALID),
    ("layer_norm_*", ("[mr]* of FLOAT16", "biasOptional of FLOAT16", "grad?*Out of FLOAT16"), 0),
    ("*softmax_*", "out of FLOAT16", 0),
    (("*softmax", "layer_norm"), ("self of FLOAT16", "input of FLOAT16", "*[Oo]ut* of FLOAT16"), 0),
    (("mse_loss", "smooth_l1_loss"), "* of FLOAT16", 0),
    ("nll_loss", "*[Oo]ut of FLOAT16", 0),
    ("binary_cross_entropy_with_logits", "self of FLOAT16", 0),
    ("batch_norm", "* of FLOAT16", 0),
    ("batch_norm", ("input of FLOAT16", "output of FLOAT16"), NO_TENSOR),
    # What was saved may be left out, and so may statistics that begin.
    ("layer_norm", "*OutOptional null", 0),
    ("layer_norm", "null and wrong", INVALID),
    ("batch_norm", "running* null", 0),
    # Only elements are counted.
    ("layer_norm_*", "grad[WB]* with a dim more", 0),
    ("layer_norm", "*OutOptional with a dim more", 0),
    ("group_norm_*", ("gradOut with a dim more", "mean with a dim more", "rstd with a dim more"), 0),
    ("embedding_*", ("indices with a dim more", "grad with a dim more"), 0),
    ("nll_loss*", ("gradOutput with a dim more", "totalWeight* with a dim more"), 0),
    ("cross_entropy_*", "gradLoss with a dim more", 0),
    (("nll_loss2d_*", "prelu_*"), "weight with a dim more", 0),
    # There may be more of them than the call needs.
    ("dropout_*", ("mask with dim 0 *", "mask with a dim more"), 0),
    ("ctc_*", ("targets with dim 1 *", "logAlpha with dim 2 *"), 0),
    ("max_pool2d_with_mask_*", ("indices with dim *", "indices with a dim less"), 0),
    ("adaptive_avg_pool?d_*", "gradOutput with dim [234] *", 0),
    (BROADCASTING, "* with a dim less", 0),
    (("mse_loss", "smooth_l1_loss"), ("self with a dim less", "target with a dim less"), 0),
    (BROADCASTING, ("gradInput with a dim less", "out with a dim less"), INVALID),
    (LOSSES, "gradOut* with a dim more", 0),
    (("binary_cross_entropy_backward", "kl_div_*"), "target with a dim less", 0),
    (("gelu_backward_v2", "log_sigmoid_*", "swi_glu*"), "rank 9", 0),
    # A plane's padding may have four sides. Nothing to compute still needs biasSizes, or an input without elements.
    ("convolution*", "padding of 4", 0),
    ("convolution_*", ("no_batch *", "no_channels *"), INVALID),
    # As many windows fit into one row more.
    (("avg_pool2d", "max_pool2d_with_indices", "max_pool2d_with_mask"), "self with dim 2 *", 0),
    ("adaptive_avg_pool2d", "self with dim [23] *", 0),
    # A mask is written from the begin of its storage on.
    ("max_pool2d_with_mask", "indices before *", 0),
    # Only transposed convolutions have more positions.
    ("convolution", ("outputPadding null", "outputPadding of *", "bias in NCHW"), 0),
    # A text that is a mean if it is not given.
    ("cross_entropy_*", "reductionOptional null", 0),
    # The tiling checks the shapes of operators that CANN generates.
    ("cross_entropy_*", ("logProb with dim 0 *", "target with *"), TILING),
    ("swi_glu*", ("rank 0", "x with dim 2 *"), TILING),
    ("swi_glu", "nothing *", TILING),
    ("rms_norm*", ("* with *", "a negative dim", "rank 9"), TILING),
    ("rms_norm", ("rank 0", "no_rows *"), TILING),
    ("rotary_*", ("* with *", "a negative dim", "rank *", "nothing *"), TILING),
    # What is checked by the operator that attention runs, of which a null pointer says that something is wrong.
    ("flash_attention_score*", ("prefixOptional null", "*Idx* null", "*ShiftOptional null"), 0),
    ("flash_attention_score_grad*", ("*ShiftOptional *", "softmax*Optional *"), NULL),
    ("flash_attention_score_grad_v2", ("*ShiftOptional in *", "*ShiftOptional null"), 0),
    ("flash_attention_score_grad*", "softmax*Optional in *", 0),
    (
        ("flash_attention_score", "flash_attention_score_v2"),
        ("*Out *", "realShiftOptional with *", "query with dim 2 *"),
        NULL,
    ),
    (("flash_attention_score", "flash_attention_score_v2"), "*Out in *", 0),
    ("flash_attention_score*", "* before its storage", INVALID),
    # Formats that are compared with one another.
    ("binary_cross_entropy_*backward", ("self in NCHW", "target in NCHW"), INVALID),
    ("binary_cross_entropy_with_logits_*", "out in NCHW", INVALID),
    (("abs", "div", "divs", "tanh"), "FRACTAL_NZ", INVALID),
    (("abs", "reciprocal", "tanh"), "* in NCHW", INVALID),
    # Formats of tensors that are not compared.
    ("adaptive_avg_pool2d_*", "out in *", 0),
    ("max_pool2d_*", "indices in *", 0),
    ("batch_norm_*", "*[es]* in *", 0),
    (("batch_norm", "group_norm"), ("[bgmrw]* in *", "save* in *"), 0),
    ("embedding_*", "* in NCHW", 0),
    ("upsample_*", "gradOut in *", 0),
    # Functions of elements take more types, and cast their results.
    ((*OF_ANY, *REAL), "DOUBLE", 0),
    (OF_ANY, ("INT8", "UINT8", "INT16", "BOOL"), 0),
    (("sub", "pow_tensor_scalar", "clamp"), "BOOL", INVALID),
    ("clamp", "UINT8", INVALID),
    (("neg", "relu"), "INT8", 0),
    ("relu", "UINT8", 0),
    ("s_where", ("INT8", "UINT8", "INT16", "DOUBLE"), 0),
    ((*OF_TWO, *OF_ANY, *REAL, "tanh", "hardswish"), "* of FLOAT16", 0),
    (("abs", "gelu_v2"), "* of FLOAT16", INVALID),
    ("s_where", "condition of FLOAT16", INVALID),
    (OF_TWO, ("self with a dim less", "other with a dim less", "condition with a dim *"), 0),
    ("gelu_v2", "* with a dim less", INVALID),
    (("muls", "silu", "gelu_v2", "hardswish"), "rank 9", 0),
    ("clamp", "clipValue* null", 0),
    ("lt_scalar", ("self null", "other null"), INNER_NULL),
    # A null pointer is taken for a step that failed, and for a wrong size.
    ("upsample_bilinear2d", ("self null", "out null", "null and wrong"), NO_TENSOR),
    ("upsample_bilinear2d", "outputSize null", INVALID),
    # Any plane has an upsampled one, and samples.
    (("upsample_bilinear2d", "upsample_nearest2d_v2"), "self with dim [23] *", 0),
    ("grid_sampler2d", "input with dim [23] *", 0),
    ("roi_align_v2", ("self with dim [023] *",), 0),
)
"""Patterns of operators and rows, and CANN's code if it differs from the table's: the last counts."""

_ONE_WINDOW = "gradOutput with dim [234] *"
_ANY_BIAS = ("convolution_*", "gradBias in NCHW", 0)
_WIDE_CTC = ("ctc_*", ("FLOAT16", "BF16"), INVALID)
ANSWERS_OF_PRODUCTS: dict[Product, Answers] = {
    Product.ATLAS_TRAINING: (("adaptive_avg_pool3d_*", _ONE_WINDOW, INVALID), _ANY_BIAS, _WIDE_CTC),
    Product.ATLAS_INFERENCE: (
        ("adaptive_avg_pool3d_*", _ONE_WINDOW, NO_KERNEL),
        _ANY_BIAS,
        _WIDE_CTC,
        ("swi_glu", "x with dim 1 *", TILING),
    ),
    Product.ASCEND_950: (
        ("batch_norm_*", "* of FLOAT16", INVALID),
        ("layer_norm", "*OutOptional with a dim more", INVALID),
        ("swi_glu", "nothing *", 0),
        ("silu_*", ("gradOutput of FLOAT16", "self of FLOAT16"), 0),
        ("silu_*", ("gradOutput with a dim less", "self with a dim less"), 0),
        ("threshold_*", "INT64", 0),
        ("lt_scalar", ("self null", "other null"), NULL),
        ("replication_pad2d", "BOOL", 0),
    ),
}


def answer_of(operator: str, row: str, code: int, product: Product) -> int:
    for operators, rows, answer in (*CANN_ANSWERS, *ANSWERS_OF_PRODUCTS.get(product, ())):
        if matches(operator, operators) and matches(row, rows):
            code = answer
    return code


def matches(name: str, patterns: Patterns) -> bool:
    return any(fnmatch(name, each) for each in (patterns if isinstance(patterns, tuple) else (patterns,)))
