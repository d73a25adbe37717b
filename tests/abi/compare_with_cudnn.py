"""Compares the interface with NVIDIA's cuDNN headers: prototypes here, values and layouts by static_assert.

usage: compare_with_cudnn.py C_COMPILER CXX_COMPILER OUTPUT.cpp INCLUDE_DIRECTORY CUDNN_INCLUDE_DIRECTORY [CUDA_INCLUDE]

Writes OUTPUT.cpp and compiles it. Every name is compared after its prefix was changed, so "the same" means: a program
for one interface becomes a program for the other by renaming, and the two are binary compatible.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
import sys

from interface_parser import Function, Parameter, parse

SKIPPED = 77

# Macros that describe a library and not the interface.
THEIR_MACROS = ("CUDNN_DEPRECATED", "CUDNN_MAX_SM_", "CUDNN_MAX_DEVICE_VERSION", "CUDNN_SUBLIBRARY")


def ours(name):
    return name.replace("cudnn", "gpudnn").replace("CUDNN", "GPUDNN")


def renamed(function):
    parameters = tuple(Parameter(ours(p.type), "") for p in function.parameters)
    return Function(ours(function.name), ours(function.result), parameters)


def without_names(function):
    return Function(function.name, function.result, tuple(Parameter(p.type, "") for p in function.parameters))


def prototype(function):
    return f"{function.result} {function.name}({', '.join(p.type for p in function.parameters)})"


def compare_functions(mine, theirs):
    problems = []
    mapped = {ours(name): renamed(function) for name, function in theirs.functions.items()}
    for name in sorted(set(mapped) - set(mine.functions)):
        problems.append(f"missing: {prototype(mapped[name])}")
    for name in sorted(set(mapped) & set(mine.functions)):
        if without_names(mine.functions[name]) != mapped[name]:
            problems.append(f"differs: {prototype(mine.functions[name])}\n  cuDNN: {prototype(mapped[name])}")
    return problems, sorted(set(mine.functions) - set(mapped))


def compare_types(mine, theirs):
    problems = []
    for kind in ("enums", "structs"):
        mapped = {ours(n): tuple(ours(m) for m in ms) for n, ms in getattr(theirs, kind).items()}
        for name, members in sorted(mapped.items()):
            have = getattr(mine, kind).get(name)
            if have is None or set(have) != set(members):
                problems.append(f"{kind[:-1]} {name}: {sorted(set(members) ^ set(have or ()))} not in both")
    missing = {ours(name) for name in theirs.opaque} - mine.opaque
    return problems + [f"missing: opaque type {name}" for name in sorted(missing)]


def assertions(theirs, macros):
    """C++ lines that hold if all values and layouts are equal, and how many of each kind there are."""
    lines, counts = [], {"constants": 0, "structs": 0, "members": 0, "macros": 0}
    for enum, names in sorted(theirs.enums.items()):
        lines.append(f'static_assert(sizeof({ours(enum)}) == sizeof({enum}), "{enum}");')
        for name in names:
            lines.append(f'static_assert(int{{{ours(name)}}} == int{{{name}}}, "{name}");')
            counts["constants"] += 1
    for struct, members in sorted(theirs.structs.items()):
        lines.append(f'static_assert(sizeof({ours(struct)}) == sizeof({struct}), "{struct}");')
        lines.append(f'static_assert(alignof({ours(struct)}) == alignof({struct}), "{struct}");')
        counts["structs"] += 1
        for member in members:
            mine = f"{ours(struct)}, {ours(member)}"
            lines.append(f'static_assert(offsetof({mine}) == offsetof({struct}, {member}), "{struct}.{member}");')
            lines.append(
                f"static_assert(sizeof({ours(struct)}::{ours(member)}) == sizeof({struct}::{member}), "
                f'"{struct}.{member}");'
            )
            counts["members"] += 1
    for name in macros:
        lines.append(f'static_assert({ours(name)} == {name}, "{name}");')
        counts["macros"] += 1
    return lines, counts


def value_macros(mine, theirs):
    """Macros of both that are constants, and those of cuDNN that are missing."""
    guards = ("_H_", "_H")
    candidates = [
        name
        for name in sorted(theirs.constants)
        if not name.endswith(guards) and not name.startswith(THEIR_MACROS) and "(" not in name
    ]
    # The version numbers of cuDNN's parts have no counterpart in one library.
    candidates = [n for n in candidates if not n.startswith(("CUDNN_GRAPH_", "CUDNN_OPS_", "CUDNN_CNN_", "CUDNN_ADV_"))]
    both = [name for name in candidates if ours(name) in mine.constants]
    return both, [name for name in candidates if ours(name) not in mine.constants]


def interface_version(path, prefix):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return tuple(int(re.search(rf"#define {prefix}_{part} (\d+)", text).group(1)) for part in ("MAJOR", "MINOR"))


def main():
    c_compiler, cxx_compiler, output, include, cudnn_include = sys.argv[1:6]
    cuda = sys.argv[6:7]
    version = interface_version(f"{include}/gpudnn/version.h", "GPUDNN")
    their_version = interface_version(f"{cudnn_include}/cudnn_version.h", "CUDNN")
    if version != their_version:
        print(f"skipped: the interface is that of cuDNN {version}, the headers found are of {their_version}")
        return SKIPPED
    mine = parse(c_compiler, f"{include}/gpudnn/gpudnn.h", "gpudnn", [include, *cuda])
    theirs = parse(c_compiler, f"{cudnn_include}/cudnn.h", "cudnn", [cudnn_include, *cuda])

    problems, extra = compare_functions(mine, theirs)
    problems += compare_types(mine, theirs)
    both, missing = value_macros(mine, theirs)
    problems += [f"missing: macro {ours(name)}" for name in missing]

    lines, counts = assertions(theirs, both)
    includes = ["#include <cstddef>", "", "#include <cudnn.h>", "", "#include <gpudnn/gpudnn.h>", ""]
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(includes + lines) + "\n")
    command = [cxx_compiler, "-std=c++20", "-fsyntax-only", "-Wno-deprecated-declarations", f"-I{include}"]
    command += [f"-I{cudnn_include}", *(f"-I{directory}" for directory in cuda), output]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        problems.append(result.stderr)

    print("\n".join(problems))
    print(f"{len(theirs.functions)} functions, {len(theirs.enums)} enums with {counts['constants']} constants,")
    print(f"{counts['structs']} structs with {counts['members']} members, {counts['macros']} macros compared")
    print(f"beyond cuDNN: {', '.join(extra)}")
    enough = len(theirs.functions) >= 200 and counts["constants"] >= 500  # a parser that finds nothing must not pass
    return 1 if problems or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
