// Every function of the ABI: checks what its type says, and calls the function that checks more, or the library's own.
#include <exception>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "aclnn/aclnn_status.h"
#include "operators.h"
#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {
namespace {

constexpr int kRefusal_acl = ACL_ERROR_RT_PARAM_INVALID;
constexpr int kRefusal_acl_host = ACL_ERROR_RT_PARAM_INVALID;
constexpr int kRefusal_aclnn = ACLNN_ERR_PARAM_INVALID;
constexpr int kRefusal_aclnnop = ACLNN_ERR_PARAM_INVALID;

template <typename Type>
constexpr bool is_object =
    std::is_same_v<Type, aclTensor> || std::is_same_v<Type, aclScalar> || std::is_same_v<Type, aclIntArray> ||
    std::is_same_v<Type, aclBoolArray> || std::is_same_v<Type, aclTensorList> || std::is_same_v<Type, aclOpExecutor>;

template <typename Argument>
void CheckArgument([[maybe_unused]] bool is_handle, [[maybe_unused]] Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    using Object = std::remove_const_t<std::remove_pointer_t<Argument>>;
    if constexpr (is_object<Object>) {
      TheSession().objects.CheckAlive(argument);
      if constexpr (std::is_same_v<Object, aclTensorList>) {
        for (const aclTensor* const tensor : TensorsOf(argument)) TheSession().objects.CheckAlive(tensor);
      }
    } else if constexpr (std::is_same_v<Argument, void*>) {
      if (is_handle) TheSession().objects.CheckHandle(argument);
    }
  }
}

constexpr const char* KindOf(const aclScalar*) { return "an aclScalar"; }
constexpr const char* KindOf(const aclIntArray*) { return "an aclIntArray"; }
constexpr const char* KindOf(const aclBoolArray*) { return "an aclBoolArray"; }

template <typename... Arguments>
constexpr bool IsPhaseOne() {
  if constexpr (sizeof...(Arguments) > 0) {
    using Last = std::tuple_element_t<sizeof...(Arguments) - 1, std::tuple<Arguments...>>;
    return std::is_same_v<Last, aclOpExecutor**>;
  }
  return false;
}

template <typename Row, typename Result, typename... Arguments>
Result Perform(Arguments... arguments) {
  if constexpr (IsPhaseOne<Arguments...>()) {
    return PhaseOne(Row::Real(), arguments...);
  } else if constexpr (std::is_same_v<PhaseTwoFunction*, Result (*)(Arguments...)>) {
    return PhaseTwo(Row::Real(), arguments...);
  } else if constexpr (std::is_same_v<SetAddressFunction*, Result (*)(Arguments...)>) {
    return SetAddress(Row::Real(), arguments...);
  } else if constexpr (!std::is_null_pointer_v<decltype(Row::kChecked)>) {
    return Row::kChecked(arguments...);
  } else if constexpr (std::is_pointer_v<Result> && is_object<std::remove_pointer_t<Result>>) {
    const Result made = Row::Real()(arguments...);
    if (made != nullptr) TheSession().objects.Add(KindOf(made), made);
    return made;
  } else if constexpr (std::string_view(Row::kName).substr(0, 10) == "aclDestroy") {
    return DestroyObject(Row::Real(), arguments...);
  } else {
    return Row::Real()(arguments...);
  }
}

template <typename Row, typename Result, typename... Arguments>
Result Enter(Arguments... arguments) {
  constexpr std::string_view name = Row::kName;
  constexpr bool begins_or_ends = name == "aclInit" || name.substr(0, 11) == "aclFinalize";
  // Of all functions that take void*, these take streams and events.
  constexpr bool takes_handles =
      name.find("Stream") != std::string_view::npos || name.find("Event") != std::string_view::npos;
  if (Row::Real() == nullptr) {
    if constexpr (std::is_same_v<Result, int>) return ACL_ERROR_API_NOT_SUPPORT;
    return Result{};
  }
  if (!begins_or_ends && !TheSession().is_on) return Row::Real()(arguments...);
  EnterFunction(Row::kName);
  if constexpr (name != "aclSetAclOpExecutorRepeatable") ForgetPlanned();
  if constexpr (std::is_same_v<Result, int>) {
    try {
      CheckNotForked();
      (CheckArgument(takes_handles, arguments), ...);
      return Perform<Row, Result>(arguments...);
    } catch (const Offence& offence) {
      const int code = offence.code() == 0 ? Row::kRefusal : offence.code();
      SetMessage(Row::kName, offence.what(), code);
      return code;
    } catch (const std::exception& failure) {
      SetMessage(Row::kName, failure.what(), ACL_ERROR_INTERNAL_ERROR);
      return ACL_ERROR_INTERNAL_ERROR;
    }
  } else {
    return Perform<Row, Result>(arguments...);
  }
}

// A function that the libraries lack is missing here as well: dlsym then returns null.
#define ROW(name, folder, checked_name)                                    \
  struct Row_##name {                                                      \
    static constexpr const char* kName = #name;                            \
    [[maybe_unused]] static constexpr int kRefusal = kRefusal_##folder;    \
    [[maybe_unused]] static constexpr auto kChecked = checked_name;        \
    static decltype(&::name) Real() { return acl_strict::Real().name; }    \
    static decltype(&::name) Resolve() {                                   \
      const bool is_missing = IsOpen() && Real() == nullptr;               \
      return is_missing ? nullptr : decltype(&::name){&Enter<Row_##name>}; \
    }                                                                      \
  };
ABI_FUNCTIONS(ROW)
#undef ROW

}  // namespace
}  // namespace acl_strict

#define EXPORT(name, folder, checked)                                                    \
  extern "C" {                                                                           \
  decltype(&::name) Resolve_##name() { return acl_strict::Row_##name::Resolve(); }       \
  __attribute__((visibility("default"), ifunc("Resolve_" #name))) decltype(::name) name; \
  }
ABI_FUNCTIONS(EXPORT)
#undef EXPORT
