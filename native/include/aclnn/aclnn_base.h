// Start and end of aclnn in a process; optional where aclInit is called.
//
// An operator has two functions, which the headers of aclnnop declare. Phase 1, ...GetWorkspaceSize, checks the
// arguments, plans the work and says how much device memory it needs besides the tensors. Phase 2 queues the work and
// consumes the executor, whether that succeeds or not.
#pragma once

#include "aclnn/acl_meta.h"

ACLNN_API aclnnStatus aclnnInit(const char* configPath);
ACLNN_API aclnnStatus aclnnFinalize();
