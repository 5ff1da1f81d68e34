"""What the grader makes by running the compiler's stages itself is what Triton's own `compile` makes, byte for byte."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pytest

from grader.building import BuildOptions, describe
from grader.building.compiler import compile_request
from grader.labs import get_lab
from grader.reading import read
from tests.submissions import TESTS, with_mistakes

BOTH_WAYS = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from grader.building.sandboxed import triton_stages as compiling
from grader.interpreter import generated_module as made

asked = json.load(sys.stdin)
module = made.load(asked["path"], asked["kernel"], 90)
for request in asked["requests"]:
    answer, (cubin,) = compiling.compile_one(module, request)
    source, target = compiling._source(module, request), GPUTarget("cuda", request["capability"], 32)
    kernel = triton.compile(source, target=target, options=compiling._options(request))
    assert cubin == kernel.asm["cubin"], request
    assert answer["ptx"] == compiling.ptx.read(kernel.asm["ptx"], kernel.metadata.num_warps)
    told = kernel.metadata.name, kernel.metadata.num_warps, kernel.metadata.shared
    assert told == (answer["entry"], answer["num_warps"], answer["shared_bytes"])
    assert answer["scratch_bytes_per_program"] == int(getattr(kernel.metadata, "global_scratch_size", 0) or 0)
    assert compiling.allocate_one(module, request)["shared_bytes"] == kernel.metadata.shared
"""


@pytest.mark.slow
@pytest.mark.parametrize(("lab_id", "capability"), zip(with_mistakes(), itertools.cycle([80, 90]), strict=False))
def test_the_binary_is_that_of_tritons_own_loop(lab_id, capability, tmp_path):
    """Two configs and two specialisations of each lab's plain kernel, for either target in turn."""
    lab = get_lab(lab_id)
    source = read(TESTS / "styles" / f"{lab_id}_plain.py", [lab]).labs[lab_id]
    bundle = describe(lab, source, BuildOptions((90,), "check", 1))
    first = next(case.name for case in lab.cases if case.configs == "all")
    wanted = [(bundle.configs[0], first), (bundle.configs[-1], first), (bundle.configs[0], "single_token")]
    path = tmp_path / "kernel_module.py"
    path.write_text(bundle.made.text, encoding="utf-8")
    os.utime(path, (0, 0))
    requests = [
        compile_request("compile", lab.constants, capability, config, bundle.launches[case, config.index])
        for config, case in wanted
    ]
    asked = json.dumps({"path": str(path), "kernel": bundle.made.kernel, "requests": requests})
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", BOTH_WAYS], input=asked, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
