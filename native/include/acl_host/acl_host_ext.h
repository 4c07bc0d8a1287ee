/* The extension of libacl_host.so to CANN's ABI. Programs look the functions up at run time, and work without them.
 * Usable from C and C++. */
#pragma once

#include "acl/acl_base.h"
#include "aclnn/aclnn_base.h"

/* 1: any memory of the process may hold the data of tensors, serve as workspace and stand in for device memory in
 * copies, at any byte alignment, and an operator that succeeds has written each output whole, unless an input was
 * empty. 0: only memory from aclrtMalloc may, as on a device with its own memory, and operators promise no such thing.
 */
ACL_FUNC_VISIBILITY aclError aclHostPointersUsable(int32_t* usable);

/* 1: launching the executor on an idle stream runs the whole work before phase 2 returns, in less time than waking
 * another thread takes, whatever the values of the tensors. 0: it may take longer. */
ACL_FUNC_VISIBILITY aclnnStatus aclHostExecutorIsShort(const aclOpExecutor* executor, int32_t* is_short);
