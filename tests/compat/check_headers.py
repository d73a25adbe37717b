"""Checks that each header under cuDNN's names compiles alone and twice, in C and C++, with and without CUDA's headers, and
that cudnn.h does for every age, without a warning.

usage: check_headers.py C_COMPILER CXX_COMPILER INCLUDE_DIRECTORY [CUDA_INCLUDE_DIRECTORY]

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import subprocess
import sys

STANDARDS = (("c", "c99"), ("c", "c11"), ("c++", "c++11"), ("c++", "c++20"))


def main():
    c_compiler, cxx_compiler, include = sys.argv[1:4]
    headers = sorted(path.name for path in pathlib.Path(include).glob("*.h"))
    modes = [["-DGPUDNN_NO_CUDA_HEADERS"]] + [["-isystem", directory] for directory in sys.argv[4:]]
    # Warnings of the headers of older ages are off: they are system headers to the compiler.
    units = [("".join(f"#include <{header}>\n" for header in headers), 9)]
    units += [(f"#include <{header}>\n#include <{header}>\n", 9) for header in headers]
    units += [(f"#include <cudnn.h>\n#if CUDNN_MAJOR != {age}\n#error\n#endif\n", age) for age in range(2, 10)]
    units += [("#include <cudnn.h>\n#ifdef CUDNN_VERSION\n#error\n#endif\n", 1)]
    compiled = failures = 0
    for language, standard in STANDARDS:
        compiler = c_compiler if language == "c" else cxx_compiler
        for mode in modes:
            command = [compiler, "-x", language, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
            command += ["-pedantic", f"-I{include}", *mode]
            for text, age in units:
                result = subprocess.run(
                    [*command, f"-DGPUDNN_COMPAT_VERSION={age}", "-"], input=text + "int check;\n",
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                compiled += 1
                if result.returncode != 0:
                    failures += 1
                    print(f"{text}age {age}, {standard}, {' '.join(mode)}:\n{result.stderr}")
    wrong = subprocess.run(
        [c_compiler, "-x", "c", "-fsyntax-only", f"-I{include}", "-DGPUDNN_COMPAT_VERSION=10", "-"],
        input="#include <cudnn.h>\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "must be a number from 1 to 9" not in wrong.stderr:
        failures += 1
        print("an age that never was is not refused")
    print(f"{len(headers)} headers, {compiled} compilations, {failures} failures")
    return 1 if failures or len(headers) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
