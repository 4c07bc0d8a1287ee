// The operators that are gradients of padding: each row has a rule, a number of axes, and takes_no_channels.
#include "families/pad/plan.h"
#include "operator_plans.h"

namespace acl_host {
namespace {

constexpr auto kReflection = PadRule::kReflection;
constexpr auto kReplication = PadRule::kReplication;

}  // namespace

Plan PlanReflectionPad1dBackward(const PadArguments& given) { return MakePadPlan({kReflection, 1, true}, given); }
Plan PlanReflectionPad2dBackward(const PadArguments& given) { return MakePadPlan({kReflection, 2, true}, given); }
Plan PlanReflectionPad3dBackward(const PadArguments& given) { return MakePadPlan({kReflection, 3, false}, given); }
Plan PlanReplicationPad1dBackward(const PadArguments& given) { return MakePadPlan({kReplication, 1, false}, given); }
Plan PlanReplicationPad2dBackward(const PadArguments& given) { return MakePadPlan({kReplication, 2, false}, given); }
Plan PlanReplicationPad3dBackward(const PadArguments& given) { return MakePadPlan({kReplication, 3, false}, given); }

}  // namespace acl_host
