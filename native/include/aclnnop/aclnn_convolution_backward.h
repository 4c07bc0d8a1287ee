// The gradients of convolutions and of transposed convolutions along one to three axes.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput     (N, Cout, ...) with one to three spatial axes
// input          (N, Cin, ...); only its shape is used unless gradWeight is wanted
// weight         (Cout, Cin / groups, ...), transposed (Cin, Cout / groups, ...); only its shape is used unless
//                gradInput is wanted
// biasSizes      (Cout,) or null
// stride         one value for each spatial axis, as all that follow
// padding        zeros on either side of the input; for two axes also those above, below, to the left and to the right
// dilation       the distance of the kernel's taps
// transposed     the forward pass was a transposed convolution
// outputPadding  positions behind the last one that a transposed convolution has; otherwise zeros
// groups         into which channels are divided
// outputMask     which of the three outputs to write; the others may be null
// cubeMathType   how precisely matrix units multiply FLOAT: 0 as it is, 1 or 3 with fewer digits, 2 as FLOAT16
// gradInput      shaped as input
// gradWeight     shaped as weight
// gradBias       (Cout,)
ACLNN_API aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* input, const aclTensor* weight, const aclIntArray* biasSizes,
    const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool transposed,
    const aclIntArray* outputPadding, int groups, const aclBoolArray* outputMask, int8_t cubeMathType,
    aclTensor* gradInput, aclTensor* gradWeight, aclTensor* gradBias, uint64_t* workspaceSize,
    aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnConvolutionBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);
