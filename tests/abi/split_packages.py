"""The host library in the form of CANN's packages: `python -m tests.abi.split_packages FOLDER` builds them.

Each library has only the functions of some headers, under CANN's file names. They forward every call. None has the host
library's extension, so the runtime takes them for an unknown library.
"""

import os
import subprocess
import sys
from pathlib import Path

import aclgrad_native
from tests.sanitizers import COMPILER
from tools.abi.prototypes import INCLUDE, declarations, parameters

PACKAGES = {"libascendcl.so": "acl", "libnnopbase.so": "aclnn", "libopapi.so": "aclnnop"}
"""Libraries, and the folder of headers that each has the functions of."""

_START = """
#include <dlfcn.h>

#include "acl/acl.h"
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"

template <typename Function>
Function* Find(const char* name) {
  static void* const library = dlopen(HOST, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
"""


def source_of(folder: str) -> str:
    """Returns C++ code that forwards every function that the headers of a folder declare."""
    text = [_START, *(f'#include "{folder}/{header.name}"' for header in sorted((INCLUDE / folder).glob("*.h")))]
    for header, result, name, arguments in declarations(INCLUDE / folder):
        assert header.is_relative_to(INCLUDE / folder)
        names = ", ".join(each.replace("*", " ").split()[-1] for each in parameters(arguments))
        text.append(f'extern "C" {result} {name}({arguments}) {{\n'
                    f'  static const auto pass_on = Find<decltype({name})>("{name}");\n'
                    f"  return pass_on({names});\n}}")  # fmt: skip
    return "\n".join(text)


def build(folder: Path) -> list[Path]:
    """Compiles the libraries into a folder."""
    ((host, _),) = aclgrad_native.library_files("host")
    folder.mkdir(parents=True, exist_ok=True)
    libraries = []
    for name, headers in PACKAGES.items():
        source, library = folder / f"{name}.cpp", folder / name
        source.write_text(source_of(headers))
        subprocess.run(
            [COMPILER, "-std=c++17", "-shared", "-fPIC", f"-I{INCLUDE}", f'-DHOST="{host}"', "-o", str(library),
             str(source), "-ldl"],
            check=True,
        )  # fmt: skip
        libraries.append(library)
    return libraries


if __name__ == "__main__":
    print(os.pathsep.join(map(str, build(Path(sys.argv[1]).resolve()))))
