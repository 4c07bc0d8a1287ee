#include "plan/int_arrays.h"

#include <algorithm>

#include "plan/checks.h"

namespace acl_host {

bool HasLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed) {
  return std::find(allowed.begin(), allowed.end(), argument.values.size()) != allowed.end();
}

std::string LengthMessage(const IntArrayArgument& argument, std::initializer_list<size_t> allowed) {
  std::string lengths;
  for (const size_t length : allowed) lengths += (lengths.empty() ? "" : " or ") + std::to_string(length);
  return std::string(argument.name) + ": expected " + lengths + " values, got " + DimsText(argument.values);
}

void CheckLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed) {
  if (!HasLength(argument, allowed)) FailInvalid(LengthMessage(argument, allowed));
}

void CheckEachPositive(const IntArrayArgument& argument) {
  const Dims& values = argument.values;
  if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value > 0; })) return;
  FailInvalid(std::string(argument.name) + ": expected values above 0, got " + DimsText(values));
}

Pair ReadPair(const Dims& values) { return {values.front(), values.back()}; }

}  // namespace acl_host
