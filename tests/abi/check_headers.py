"""Checks that every public header compiles alone, twice, and with all others in both orders, in each language standard,
with and without the CUDA toolkit's headers, without a warning.

usage: check_headers.py C_COMPILER CXX_COMPILER INCLUDE_DIRECTORY [CUDA_INCLUDE_DIRECTORY]

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import subprocess
import sys

STANDARDS = (("c", "c99"), ("c", "c11"), ("c++", "c++17"), ("c++", "c++20"))


def sources(headers):
    """(what, text) of the translation units to compile."""
    line = {header: f"#include <gpudnn/{header}>\n" for header in headers}
    for header in headers:
        yield f"{header} alone", line[header]
        yield f"{header} twice", line[header] * 2
    yield "all headers", "".join(line[header] for header in headers)
    yield "all headers, last first", "".join(line[header] for header in reversed(headers))


def main():
    c_compiler, cxx_compiler, include = sys.argv[1:4]
    cuda = sys.argv[4] if len(sys.argv) > 4 else ""
    root = pathlib.Path(include, "gpudnn")
    headers = sorted(path.name for path in root.glob("*.h"))
    # The C++ face is one header: what it includes is no interface of its own.
    cpp_headers = sorted(path.name for path in root.glob("*.hpp"))
    # CUDA's own headers are not free of warnings, so they are system headers.
    modes = [("without CUDA headers", ["-DGPUDNN_NO_CUDA_HEADERS"])]
    if cuda:
        modes.append(("with CUDA headers", ["-isystem", cuda]))
    else:
        print("no CUDA headers on this machine: compiled without them only")

    compiled = failures = 0
    for language, standard in STANDARDS:
        compiler = c_compiler if language == "c" else cxx_compiler
        for mode, flags in modes:
            command = [compiler, "-x", language, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
            command += ["-pedantic", f"-I{include}", *flags, "-"]
            if standard in ("c++17", "c++20"):
                chosen = list(sources(headers)) + list(sources(cpp_headers))[:2]
            else:
                chosen = sources(headers)
            for what, text in chosen:
                text += "int gpudnn_header_check;\n"  # a translation unit must not be empty
                result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
                compiled += 1
                if result.returncode != 0:
                    failures += 1
                    print(f"{what}, {standard}, {mode}:\n{result.stderr}")
    print(f"{len(headers) + len(cpp_headers)} headers, {compiled} compilations, {failures} failures")
    return 1 if failures or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
