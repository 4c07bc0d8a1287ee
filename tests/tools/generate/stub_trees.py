"""Checkouts in which stubs of operators are written, and declarations for them."""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import aclgrad.operators as package
from aclgrad.operators import families
from tests.sanitizers import NATIVE

ROOT = NATIVE.parent
HEADER = """
#include "aclnn/aclnn_base.h"
#include "acl/acl_rt.h"
extern "C" {{
ACLNN_API aclnnStatus {symbol}GetWorkspaceSize({parameters},
                                               uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus {symbol}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
}}
"""
WITHOUT_SELF = (
    "const aclTensor* gradOut, const aclTensor *outProbabilities, const aclIntArray* reducedDims, "
    "const aclTensor* out, double scalesH, bool keepDim, aclTensor* gradInput"
)
"""An input has to be known as such though its name begins with `out`, and stands behind an attribute."""
WITH_SELF = "const aclTensor* gradOutput, const aclTensor* self, aclTensor* out"
SEVERAL = (
    "const aclTensor* gradOutput, const aclTensor *outProbabilities, const aclIntArray* reducedDims, "
    "const aclTensor* weightOptional, double scalesH, bool keepDim, int groups, const aclScalar* slope, "
    "const aclIntArray* sizesOptional, aclTensor* gradInput, aclTensor* gradWeight"
)


CONVOLUTION = """
aclnnStatus aclnnMadeUpConvolutionBackwardGetWorkspaceSize(
  const aclTensor     *gradOutput,  // (N, C, H, W)
  const aclTensor     *input,
  const aclTensor     *weight,
  const aclIntArray   *biasSizes,
  const aclIntArray   *stride,
  const aclIntArray   *padding,
  const aclIntArray   *dilation,
  bool                 transposed,
  const aclIntArray   *outputPadding,
  int                  groups,
  const aclBoolArray  *outputMask,
  int8_t               cubeMathType,
  aclTensor           *gradInput,
  aclTensor           *gradWeight,
  aclTensor           *gradBias,
  uint64_t            *workspaceSize,
  aclOpExecutor      **executor)
"""
"""As CANN's documents have one: without ACLNN_API, semicolon and second phase."""


def lint(tree: "Tree") -> str:
    """Returns what the linter says of the operators once `make format` has run."""
    shutil.copy(ROOT / "pyproject.toml", tree.native.parent)
    for command in (("check", "--fix-only", "--quiet"), ("format", "--quiet"), ("check", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, str(tree.python)]
        done = subprocess.run(ruff, cwd=tree.native.parent, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


class Tree:
    """A checkout of what the command reads, without operators of ours."""

    def __init__(self, root: Path) -> None:
        self.python, self.native = root / "client/src/aclgrad/operators", root / "native"
        self.python.mkdir(parents=True)
        shutil.copytree(NATIVE / "include", self.native / "include")
        (self.native / "host/operators").mkdir(parents=True)
        shutil.copytree(ROOT / "tools/generate", root / "tools/generate")
        shutil.copytree(Path(families.__path__[0]), self.python / "families")
        for name in ("native/operator_table.py", "ARCHITECTURE.md"):
            shutil.copy(ROOT / name, root / name)

    def declare(self, symbol: str, parameters: str) -> None:
        header = self.native / f"include/aclnnop/aclnn_{symbol.lower()}.h"
        header.write_text(HEADER.format(symbol=symbol, parameters=parameters))

    def paste(self, symbol: str, text: str) -> None:
        (self.native / f"include/aclnnop/aclnn_{symbol.lower()}.h").write_text(text)

    def stub(self, symbol: str, parameters: str) -> None:
        """Declares an operator, and writes its stubs."""
        self.declare(symbol, parameters)
        done = self.make(symbol)
        assert done.returncode == 0, done.stderr

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tools.generate.new_operator", *arguments]
        return subprocess.run(command, cwd=self.native.parent, capture_output=True, text=True, check=False)

    def refusal(self, *arguments: str) -> str:
        done = self.make(*arguments)
        assert done.returncode == 1
        return done.stderr.strip()

    def files(self, name: str) -> dict[str, str]:
        folders = (self.python / name, self.native / "host/operators" / name)
        return {path.name: path.read_text() for folder in folders for path in folder.glob("*.*")}


def load(name: str, part: str) -> object:
    return import_module(f"{package.__name__}.{name}.{part}")
