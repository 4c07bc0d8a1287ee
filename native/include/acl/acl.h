/* Start and end of ACL in a process. Includes the whole runtime. Usable from C and C++. */
#pragma once

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

/* configPath names a JSON file and may be null. A second call returns ACL_ERROR_REPEAT_INITIALIZE and is harmless. */
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);

/* Releases everything, however often aclInit was called. Must not be called from a static destructor. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/* Undoes one aclInit, including repeated ones, and releases everything with the last. refCount may be null. */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t* refCount);
