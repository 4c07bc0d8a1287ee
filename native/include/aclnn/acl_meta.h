// Tensors, arrays, scalars and executors: the arguments of aclnn operators. C++ only, as in CANN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"

// Not that of acl_base.h, which may be CANN's: there, the language stands around the declarations.
#define ACLNN_API extern "C" __attribute__((visibility("default")))

typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclOpExecutor aclOpExecutor;

typedef int32_t aclnnStatus;
constexpr aclnnStatus OK = 0;

// Copies dims and strides, never data. Null strides mean a contiguous view. Returns null if a dims pointer is null
// while its count is not 0.
ACLNN_API aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                     const int64_t* stride, int64_t offset, aclFormat format,
                                     const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData);
ACLNN_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
ACLNN_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);

// Copies one element of the data type.
ACLNN_API aclScalar* aclCreateScalar(void* value, aclDataType dataType);

// Copies the pointers, some of which may be null. The list owns the tensors from then on: destroying it destroys them,
// and nobody else may.
ACLNN_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size);

// Destroying null is allowed.
ACLNN_API aclnnStatus aclDestroyTensor(const aclTensor* tensor);
ACLNN_API aclnnStatus aclDestroyIntArray(const aclIntArray* array);
ACLNN_API aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
ACLNN_API aclnnStatus aclDestroyScalar(const aclScalar* scalar);
ACLNN_API aclnnStatus aclDestroyTensorList(const aclTensorList* array);

// The three array getters allocate with new int64_t[]; the caller releases the array with delete[].
ACLNN_API aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum);
ACLNN_API aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum);
ACLNN_API aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum);
ACLNN_API aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset);
ACLNN_API aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format);
ACLNN_API aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType);
ACLNN_API aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size);
ACLNN_API aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size);
ACLNN_API aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size);

// The address of the storage: the view begins offset elements further on.
ACLNN_API aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr);
ACLNN_API aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr);

// Call it right after phase 1: running the executor then does not destroy it, so that it may run again, with other
// addresses but nothing else changed. Its tensors must live as long as the executor. Fails for operators that do not
// support it.
ACLNN_API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);

// For repeatable executors, also while their launches are queued, and for executors that never run: running an executor
// that is not repeatable destroys it.
ACLNN_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);

// Set the address of one of the executor's tensors, from the next run on. The tensor is one of phase 1; index is its
// place among the operator's inputs, its outputs or both.
ACLNN_API aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
ACLNN_API aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                             void* addr);
ACLNN_API aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);

// The same under their other names.
ACLNN_API aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
ACLNN_API aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                             void* addr);
ACLNN_API aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
