// Selects elements of one tensor or another.
#pragma once

#include "aclnn/aclnn_base.h"

// condition  which ones, BOOL or UINT8: those of self where it is not 0
// self       the elements for conditions that are true
// other      those for the others; all three are broadcast, self and other are promoted
// out        the result, of the shape after broadcasting; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnSWhereGetWorkspaceSize(const aclTensor* condition, const aclTensor* self,
                                                  const aclTensor* other, aclTensor* out, uint64_t* workspaceSize,
                                                  aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSWhere(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
