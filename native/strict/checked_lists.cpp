// Lists of tensors: whoever destroys a list destroys its tensors.
#include <memory>

#include "operators.h"
#include "real.h"
#include "session.h"

namespace acl_strict {
namespace {

struct TensorList {
  std::vector<const aclTensor*> tensors;
};

}  // namespace

std::vector<const aclTensor*> TensorsOf(const aclTensorList* list) {
  const auto facts = list == nullptr ? nullptr : TheSession().objects.FactsOf<TensorList>(list);
  return facts == nullptr ? std::vector<const aclTensor*>{} : facts->tensors;
}

aclTensorList* checked::aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  aclTensorList* const list = Real().aclCreateTensorList(value, size);
  if (list == nullptr) return nullptr;
  auto facts = std::make_shared<TensorList>();
  for (uint64_t index = 0; value != nullptr && index < size; ++index) {
    if (value[index] != nullptr) facts->tensors.push_back(value[index]);
  }
  TheSession().objects.Add("an aclTensorList", list, std::move(facts));
  return list;
}

aclnnStatus checked::aclDestroyTensorList(const aclTensorList* array) {
  ObjectLedger& objects = TheSession().objects;
  const std::vector<const aclTensor*> tensors = TensorsOf(array);
  for (const aclTensor* const tensor : tensors) {
    // Also of a tensor that stands in the list twice.
    objects.CheckAlive(tensor);
    // The list, which is kept longer, destroys it.
    (void)objects.Retire(tensor, ObjectLedger::End::kDestroyed);
  }
  return DestroyObject(Real().aclDestroyTensorList, array);
}

}  // namespace acl_strict
