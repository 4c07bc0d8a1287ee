"""What people paste of CANN's headers is completed, or refused before anything is written."""

import shutil
import subprocess
from pathlib import Path

import pytest

from aclgrad.operators.spec import OperatorSpec
from native.operator_table import find_wrong_declarations
from tests.sanitizers import COMPILER

from .stub_trees import CONVOLUTION, WITH_SELF, Tree, load


@pytest.mark.parametrize("prefix", ["", "ACLNN_API ", "extern "])
@pytest.mark.parametrize("suffix", ["", ";"])
def test_a_declaration_as_cann_has_it_is_completed(tree: Tree, prefix: str, suffix: str) -> None:
    tree.paste("made_up_convolution", f"{prefix}{CONVOLUTION.strip()}{suffix}")
    done = tree.make("aclnnMadeUpConvolutionBackward")
    assert done.stdout.startswith("completed native/include/aclnnop/aclnn_made_up_convolution.h\n"), done.stderr
    assert list(find_wrong_declarations(tree.native)) == []
    spec: OperatorSpec = load("made_up_convolution_backward", "spec").SPEC
    assert [each.name for each in spec.inputs] == ["grad_output", "input", "weight"]
    kinds = {each.name: each.kind.name for each in spec.attributes}
    lists = dict.fromkeys(["bias_sizes", "stride", "padding", "dilation", "output_padding"], "INTS")
    assert kinds == lists | {"transposed": "BOOL", "groups": "INT", "cube_math_type": "INT"}
    assert spec.defaults == {"transposed": False, "groups": 1, "cube_math_type": 0}
    assert "Absent (is_optional=True)?" in spec.attributes[0].summary
    assert [(each.name, each.of) for each in spec.outputs] == [
        ("grad_input", "input"),
        ("grad_weight", "weight"),
        ("grad_bias", "bias"),
    ]
    assert len({each.infer for each in spec.outputs}) == 3


WHOLE = """/**
 * Copyright (c) of whoever wrote it.
 */
#ifndef OP_API_INC_LEVEL2_ACLNN_MADE_UP_BACKWARD_H_
#define OP_API_INC_LEVEL2_ACLNN_MADE_UP_BACKWARD_H_

#include "aclnn/aclnn_base.h"
#include "aclnn_util.h"

#ifdef __cplusplus
extern "C" {{
#endif

/**
 * @brief The first phase of aclnnMadeUpBackward(gradOutput, self): how much memory it needs.
 * @param [in] gradOutput: (N, C), npu device
 */
ACLNN_API aclnnStatus aclnnMadeUpBackwardGetWorkspaceSize({parameters}, uint64_t* workspaceSize,
                                                          aclOpExecutor** executor);

// The second phase.
ACLNN_API aclnnStatus aclnnMadeUpBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          aclrtStream stream);

#ifdef __cplusplus
}}
#endif

#endif  // OP_API_INC_LEVEL2_ACLNN_MADE_UP_BACKWARD_H_
"""
"""A file of CANN: what it includes need not be there, though the declarations themselves are complete."""


def test_a_whole_header_of_cann_is_completed_to_ours(tree: Tree) -> None:
    tree.paste("made_up_backward", WHOLE.format(parameters=WITH_SELF))
    header = tree.native / "include/aclnnop/aclnn_made_up_backward.h"
    done = tree.make("aclnnMadeUpBackward")
    assert done.stdout.startswith("completed native/include/aclnnop/aclnn_made_up_backward.h\n"), done.stderr
    text = header.read_text()
    for word in ("aclnn_util.h", "Copyright", "@brief", "OP_API"):
        assert word not in text
    assert "#pragma once\n" in text
    command = [
        COMPILER,
        "-std=c++17",
        "-fsyntax-only",
        "-x",
        "c++",
        f"-I{tree.native / 'include'}",
        "-include",
        str(header),
        "/dev/null",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
    shutil.rmtree(tree.python / "made_up_backward")
    shutil.rmtree(tree.native / "host/operators/made_up_backward")
    documented = text.replace("UNWRITTEN: what it is\n", "as for aclnnMadeUpToo\n")
    header.write_text(documented)
    assert tree.make("aclnnMadeUpBackward").returncode == 0
    assert header.read_text() == documented


def test_a_refused_command_writes_nothing(tree: Tree) -> None:
    def contents() -> dict[Path, bytes]:
        files = (each for each in tree.native.parent.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        return {each: each.read_bytes() for each in files}

    assert tree.make("aclnnMadeUpBackward").returncode == 1
    pasted = WHOLE.format(parameters=WITH_SELF)
    tree.paste("made_up_backward", pasted)
    assert tree.make("aclnnMadeUpBackward", "--family", "elementwise").returncode == 0
    tree.paste("made_up_backward", pasted)
    before = contents()
    assert tree.refusal("aclnnMadeUpBackward", "--family", "elementwise").endswith("remove it first")
    assert tree.refusal("aclnnMadeUpBackward", "--like", "nothing").startswith("there is no operator nothing to copy")
    assert contents() == before
    tree.paste("other", pasted)
    before = contents()
    assert tree.refusal("aclnnMadeUpBackward").endswith("aclnn_other.h does: declare it in one of them")
    assert contents() == before


def test_a_declaration_that_cannot_be_completed_says_what_is_missing(tree: Tree) -> None:
    parameters = CONVOLUTION.partition("uint64_t")[0].rstrip(" ,\n")
    tree.paste("made_up_convolution", f"{parameters})")
    told = "has to end with uint64_t* workspaceSize, aclOpExecutor** executor; add them as CANN declares them"
    assert told in tree.refusal("aclnnMadeUpConvolutionBackward")
    tree.paste("made_up_convolution", parameters)
    assert tree.refusal("aclnnMadeUpConvolutionBackward").endswith("do not end; add the ) behind them")
