// Compiles a function for later processors too; the loader chooses. Checks are no part of the host library, whose
// kernels are compiled once per vector level.
#pragma once

// ThreadSanitizer is not there yet when the loader chooses between clones.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define FOR_EACH_PROCESSOR
#endif
