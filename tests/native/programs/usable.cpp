// Prints the processors and the bytes that a process may use, for each line of its input, a folder that has proc and
// sys; see tests/native/test_cpus.py.
#include <iostream>
#include <string>

#include "settings/machine.h"

int main() {
  for (std::string root; std::getline(std::cin, root);) {
    std::cout << acl_host::UsableCpus(root) << ' ' << acl_host::UsableMemoryBytes(root) << std::endl;
  }
}
