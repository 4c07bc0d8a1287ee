// Constants of a device: one copy of each whatever the threads, none with host addresses, and nothing is left of one
// that cannot be made.
#include "constants.h"

#include <array>
#include <atomic>
#include <cstring>
#include <set>

#include "error.h"
#include "host_library.h"
#include "program.h"

namespace programs {
namespace {

using aclgrad::AclLibrary;
using aclgrad::Constant;
using aclgrad::Constants;

constexpr int kThreads = 8;
constexpr std::size_t kBytes = 100'000;

Constant ConstantOf(int value) {
  return std::make_shared<const std::vector<std::byte>>(kBytes, static_cast<std::byte>(value));
}

// The device's memory; counts what is held, and may refuse.
struct Counted {
  std::atomic<int> held = 0;
  std::atomic<int> made = 0;
  std::atomic<int> refusals = 0;  // of the next requests
  std::atomic<bool> is_nowhere = false;

  [[nodiscard]] aclgrad::MemorySource Source(const AclLibrary& library) {
    aclgrad::MemorySource source = aclgrad::DeviceMemorySource(library, true);
    const auto allocate = source.allocate;
    const auto release = source.release;
    source.allocate = [this, allocate](void** address, std::size_t size) {
      if (refusals > 0) {
        --refusals;
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
      }
      if (is_nowhere) return ACL_SUCCESS;  // the copy fails
      ++held;
      ++made;
      return allocate(address, size);
    };
    source.release = [this, release](void* address) {
      --held;
      return release(address);
    };
    return source;
  }
};

void ExpectBytes(const AclLibrary& library, const void* address, const Constant& constant) {
  std::vector<std::byte> found(constant->size());
  library.Check(library->aclrtMemcpy(found.data(), found.size(), address, found.size(), ACL_MEMCPY_DEVICE_TO_HOST),
                "aclrtMemcpy");
  Expect(found == *constant, "a device's copy has other bytes");
}

void ExpectRefused(Constants& constants, const Constant& constant) {
  try {
    static_cast<void>(constants.At(constant));
  } catch (const aclgrad::AclError&) {
    return;
  }
  throw std::runtime_error("a constant was made without memory");
}

void CopyOnce(const AclLibrary& library) {
  Counted memory;
  {
    Constants constants(library, memory.Source(library));
    // Two of them are equal, and still two.
    const std::array<Constant, 4> given = {ConstantOf(1), ConstantOf(2), ConstantOf(2), ConstantOf(3)};
    std::array<std::array<void*, given.size()>, kThreads> found{};
    InThreads(kThreads, [&](int number) {
      library.Check(library->aclrtSetDevice(0), "aclrtSetDevice");
      for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t place = (i + static_cast<std::size_t>(number)) % given.size();
        void* const address = constants.At(given[place]);
        void*& first = found[static_cast<std::size_t>(number)][place];
        Expect(first == nullptr || first == address, "a constant moved");
        first = address;
      }
      library.Check(library->aclrtResetDevice(0), "aclrtResetDevice");
    });
    for (const auto& of_thread : found) Expect(of_thread == found[0], "threads have different copies");
    ExpectEqual("addresses", std::set<void*>(found[0].begin(), found[0].end()).size(), given.size());
    ExpectEqual("copies", static_cast<uint64_t>(memory.made), given.size());
    for (std::size_t i = 0; i < given.size(); ++i) ExpectBytes(library, found[0][i], given[i]);
  }
  ExpectEqual("copies that are left", static_cast<uint64_t>(memory.held), 0);
}

void KeepNothingOfFailures(const AclLibrary& library) {
  Counted memory;
  {
    Constants constants(library, memory.Source(library));
    const Constant constant = ConstantOf(4);
    memory.refusals = 2;
    ExpectRefused(constants, constant);
    ExpectRefused(constants, constant);
    memory.is_nowhere = true;
    ExpectRefused(constants, constant);
    memory.is_nowhere = false;
    ExpectEqual("copies", static_cast<uint64_t>(memory.made), 0);
    ExpectBytes(library, constants.At(constant), constant);
    ExpectEqual("copies", static_cast<uint64_t>(memory.made), 1);
  }
  ExpectEqual("copies that are left", static_cast<uint64_t>(memory.held), 0);
}

void CopyNothing(const AclLibrary& library) {
  Counted memory;
  Constants constants(library, memory.Source(library));
  const Constant constant = ConstantOf(5);
  Expect(constants.At(constant) == constant->data(), "a constant with host addresses was copied");
  ExpectEqual("copies", static_cast<uint64_t>(memory.made), 0);
}

}  // namespace

void Run(const Arguments& given) {
  {
    const auto library = OpenHost(given.library, R"({"host_pointers": false})");
    library->Check((*library)->aclrtSetDevice(0), "aclrtSetDevice");
    CopyOnce(*library);
    KeepNothingOfFailures(*library);
    library->Check((*library)->aclrtResetDevice(0), "aclrtResetDevice");
  }
  OnSetDevice(given.library, CopyNothing);
}

}  // namespace programs
