// Shared by the programs: their main, expectations that fail a program with a message, and work in many threads.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

namespace programs {

// The command line of every program.
struct Arguments {
  std::string library;  // the path of the host library
  int factor;           // makes the program longer
  std::string calls;    // a file that tests/call_file.py writes
};

// What each program defines; it throws if something is wrong.
void Run(const Arguments& given);

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

// Calls work(mode) for each; an exception begins with the mode's name.
template <typename Modes, typename Work>
void InModes(const Modes& modes, const Work& work) {
  for (const auto& mode : modes) {
    try {
      work(mode);
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(mode.name) + ": " + error.what());
    }
  }
}

}  // namespace programs

int main(int argc, char** argv) {
  try {
    programs::Expect(argc == 4, "usage: PROGRAM LIBRARY FACTOR CALLS");
    programs::Run({argv[1], std::stoi(argv[2]), argv[3]});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
