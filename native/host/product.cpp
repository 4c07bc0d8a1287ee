#include "product.h"

#include "error.h"

namespace acl_host {
namespace {

constexpr Product kProducts[] = {
    {"910B", "Ascend910B1", 1984, 32, true},
};

}  // namespace

const Product& FindProduct(const std::string& name) {
  std::string known;
  for (const Product& product : kProducts) {
    if (name == product.name) return product;
    known += (known.empty() ? "" : ", ") + std::string(product.name);
  }
  throw Error(ACL_ERROR_INVALID_PARAM, "there is no product \"" + name + "\"; choose one of: " + known);
}

}  // namespace acl_host
