#include "settings/typed_values.h"

#include <algorithm>

#include "errors/exceptions.h"
#include "operator_table.h"

namespace acl_host {

using Json = nlohmann::json;

void FailSetting(const std::string& key, const std::string& expected, const Json& value) {
  // The JSON library cannot dump a string that is not UTF-8.
  throw Error(ACL_ERROR_INVALID_PARAM,
              key + " must be " + expected + ", not " + value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int64_t IntegerBetween(const std::string& key, const Json& value, int64_t low, int64_t high) {
  if (!value.is_number_integer() || value > high || value < low) {
    FailSetting(key, "an integer from " + std::to_string(low) + " to " + std::to_string(high), value);
  }
  return value.get<int64_t>();
}

bool Boolean(const std::string& key, const Json& value) {
  if (!value.is_boolean()) FailSetting(key, "true or false", value);
  return value.get<bool>();
}

std::string String(const std::string& key, const Json& value) {
  if (!value.is_string()) FailSetting(key, "a string", value);
  return value.get<std::string>();
}

const std::vector<std::string>& OperatorNames() {
#define NAME(symbol) #symbol,
  static const std::vector<std::string> names = {ACLNN_OPERATORS(NAME)};
#undef NAME
  return names;
}

std::string OneOf(const std::string& key, const Json& value, const std::vector<std::string>& allowed) {
  if (value.is_string() && std::find(allowed.begin(), allowed.end(), value) != allowed.end()) {
    return value.get<std::string>();
  }
  std::string list;
  for (const std::string& name : allowed) list += (list.empty() ? "" : ", ") + name;
  FailSetting(key, "one of " + list, value);
}

}  // namespace acl_host
