# Compiles with zig, which is clang with the headers and stubs of every glibc: for ARCHITECTURE and GLIBC on any machine,
# and for the Python of PYTHON_ABI (311). PyPI's package ziglang has the program ZIG.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ARCHITECTURE GLIBC PYTHON_ABI ZIG)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${ARCHITECTURE})
set(CMAKE_CXX_COMPILER ${ZIG} c++ -target ${ARCHITECTURE}-linux-gnu.${GLIBC})
set(CMAKE_AR ${ZIG})
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_AR> ranlib <TARGET>")
# Everything with optimisation: zig would otherwise build its C++ library a second time for CMake's own trials.
set(CMAKE_CXX_FLAGS_INIT -O2)
# The strip of this machine knows no other architecture.
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)
# pybind11 would ask the interpreter that builds, which is of this machine.
set(PYTHON_MODULE_EXTENSION .cpython-${PYTHON_ABI}-${ARCHITECTURE}-linux-gnu.so)
set(PYTHON_MODULE_DEBUG_POSTFIX "")
# The interpreter that builds has the headers, the folder of a target has none.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
