// Shared by the programs: an expectation that fails the program with a message, and work in many threads.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

namespace programs {

inline void Expect(bool holds, const std::string& message) {
  if (!holds) throw std::runtime_error(message);
}

inline void ExpectEqual(const std::string& what, uint64_t actual, uint64_t expected) {
  Expect(actual == expected, what + " is " + std::to_string(actual) + ", not " + std::to_string(expected));
}

// Calls work(number) in each thread, and throws the exception of the first thread that failed.
template <typename Work>
void InThreads(int count, const Work& work) {
  std::vector<std::future<void>> threads;
  for (int number = 0; number < count; ++number) {
    threads.push_back(std::async(std::launch::async, [&work, number] { work(number); }));
  }
  for (auto& thread : threads) thread.wait();
  for (auto& thread : threads) thread.get();
}

// The command line of every program: the path of the host library, a factor that makes the program longer, and a file
// of calls.
template <typename Body>
int RunProgram(int argc, char** argv, const Body& body) {
  try {
    Expect(argc == 4, "usage: PROGRAM LIBRARY FACTOR CALLS");
    body(std::string(argv[1]), std::stoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace programs
