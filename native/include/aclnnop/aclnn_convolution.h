// Convolutions and transposed convolutions along one to three axes.
#pragma once

#include "aclnn/aclnn_base.h"

// input          (N, Cin, ...) with one to three spatial axes, format NCL, NCHW or NCDHW
// weight         (Cout, Cin / groups, ...), transposed (Cin, Cout / groups, ...)
// bias           (Cout,) or null
// stride         one value for each spatial axis, as all that follow
// padding        zeros on either side of the input; for one axis and for two also those in front of and behind each
// dilation       the distance of the kernel's taps
// transposed     a transposed convolution
// outputPadding  positions behind the last one that a transposed convolution has; otherwise not looked at
// groups         into which channels are divided
// output         (N, Cout, ...)
// cubeMathType   how precisely matrix units multiply FLOAT: 0 as it is, 1 or 3 with fewer digits, 2 as FLOAT16
ACLNN_API aclnnStatus aclnnConvolutionGetWorkspaceSize(const aclTensor* input, const aclTensor* weight,
                                                       const aclTensor* bias, const aclIntArray* stride,
                                                       const aclIntArray* padding, const aclIntArray* dilation,
                                                       bool transposed, const aclIntArray* outputPadding,
                                                       int64_t groups, aclTensor* output, int8_t cubeMathType,
                                                       uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnConvolution(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);
