// Start and end of aclnn in a process; optional where aclInit is called.
#ifndef ACLNN_ACLNN_BASE_H_
#define ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnInit(const char* configPath);
ACLNN_API aclnnStatus aclnnFinalize();

#ifdef __cplusplus
}
#endif

#endif  // ACLNN_ACLNN_BASE_H_
