#include "settings/product.h"

#include <iterator>

#include "errors/exceptions.h"

namespace acl_host {
namespace {

// In the order of Product.
// clang-format off
constexpr ProductFacts kFacts[] = {
    {"910A",   "Ascend910A",       2048, 65535, 32, false},
    {"910B",   "Ascend910B1",      1984, 65536, 32, true},
    {"910_93", "Ascend910_9391",   1984, 65536, 32, true},
    {"310P",   "Ascend310P3",      1024,  1023, 32, false},
    {"310B",   "Ascend310B1",       512,  1023, 32, false},
    {"950",    "Ascend950PR_9589", 1984, 65536,  0, true},
};
// clang-format on

}  // namespace

const ProductFacts& FactsOf(Product product) { return kFacts[static_cast<size_t>(product)]; }

Product FindProduct(const std::string& name) {
  std::string known;
  for (size_t i = 0; i < std::size(kFacts); ++i) {
    if (name == kFacts[i].name) return static_cast<Product>(i);
    known += (known.empty() ? "" : ", ") + std::string(kFacts[i].name);
  }
  throw Error(ACL_ERROR_INVALID_PARAM, "there is no product \"" + name + "\"; choose one of: " + known);
}

}  // namespace acl_host
