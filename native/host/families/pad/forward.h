// Padding itself: the function that the family's gradients belong to.
#pragma once

#include "acl/acl_base.h"
#include "families/pad/computation.h"
#include "plan/plan.h"

namespace acl_host {

// self -> the padded tensor, both of any type. The depth is not padded.
void PadPlanes(const Pad& pad, aclDataType type, const KernelArguments& arguments);

}  // namespace acl_host
