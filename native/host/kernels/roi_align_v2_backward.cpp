// aclnnRoiAlignV2Backward: declared, not yet computed; phase 1 says so.
#include "aclnnop/aclnn_roi_align_v2_backward.h"
#include "executor.h"

aclnnStatus aclnnRoiAlignV2BackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* boxes,
                                                    const aclIntArray* inputShape, int64_t pooledHeight,
                                                    int64_t pooledWidth, float spatialScale, int64_t samplingRatio,
                                                    bool aligned, aclTensor* gradInput, uint64_t* workspaceSize,
                                                    aclOpExecutor** executor) {
  (void)gradOutput;
  (void)boxes;
  (void)inputShape;
  (void)pooledHeight;
  (void)pooledWidth;
  (void)spatialScale;
  (void)samplingRatio;
  (void)aligned;
  (void)gradInput;
  return acl_host::PlanOperator(__func__, workspaceSize, executor, []() -> acl_host::Plan {
    throw acl_host::OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel");
  });
}

aclnnStatus aclnnRoiAlignV2Backward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
