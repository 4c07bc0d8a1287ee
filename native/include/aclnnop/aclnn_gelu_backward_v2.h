// The gradient of GELU, exact or approximated.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput   the gradient of the result; it and self are broadcast and promoted
// self         the tensor that the function was applied to
// approximate  "none" or "tanh"; it is only read
// gradInput    the gradient of self, of the shape after broadcasting and the promoted type
ACLNN_API aclnnStatus aclnnGeluBackwardV2GetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                          char* approximate, aclTensor* gradInput,
                                                          uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGeluBackwardV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          aclrtStream stream);
