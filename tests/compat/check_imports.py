"""Checks scripts/cudnn_imports.py: it must name what a program of ours imports, with the versions, and what is not built
must be exactly the list of what is not built.

usage: check_imports.py PROGRAM LIBGPUDNN LIBCUDNN SYMBOLS_LIST NOT_BUILT_LIST

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "abi"), str(TESTS.parent / "scripts")]
from cudnn_imports import Library  # noqa: E402
from interface_parser import read_names  # noqa: E402


def main():
    program, libgpudnn, libcudnn, symbols_list, not_built_list = sys.argv[1:6]
    tool = [sys.executable, "-B", str(TESTS.parent / "scripts" / "cudnn_imports.py"), "--library", libgpudnn]
    result = subprocess.run([*tool, "--markdown", program], capture_output=True, text=True, check=True).stdout
    problems = []
    for row in ("| `cudnnConvolutionForward` | libcudnn.so.9 | served |", "| `cudnnCreate` | libcudnn.so.9 | served |"):
        if row not in result:
            problems.append(f"missing: {row}\n{result}")
    broken = subprocess.run([*tool, __file__], capture_output=True, text=True, check=False)
    if broken.returncode == 0 or "not a 64-bit" not in broken.stderr:
        problems.append("a file that is no program was taken")

    not_built = {"cudnn" + name.removeprefix("gpudnn") for name in read_names(not_built_list)}
    public = ["cudnn" + name.removeprefix("gpudnn") for name in read_names(symbols_list)]
    for path in (libgpudnn, libcudnn):
        library = Library(path)
        refused = {name for name in public if library.serves(name)[0] == "refused"}
        problems += [f"{path}: {name} is in one of 'refused' and not_built.txt alone" for name in sorted(refused ^ not_built)]
        if library.serves("cudnnNeverWas")[0] != "missing":
            problems.append(f"{path}: a function that never was is not missing")
    print("\n".join(problems))
    print(f"{len(public)} functions, {len(not_built)} not built")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
