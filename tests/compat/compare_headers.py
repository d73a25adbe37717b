"""Compares the headers that the build writes under cuDNN's names with NVIDIA's own: prototypes and types by parsing, every
value, size, offset and type name by one program compiled with each, whose outputs must be equal.

usage: compare_headers.py C_COMPILER CXX_COMPILER WORK_DIRECTORY OUR_INCLUDE CUDNN_INCLUDE CUDA_INCLUDE

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "abi"))
from interface_parser import Function, Parameter, parse  # noqa: E402

SKIPPED = 77
# What describes NVIDIA's build and not the interface.
THEIRS = ("CUDNN_DEPRECATED", "CUDNN_MAX_SM_", "CUDNN_MAX_DEVICE_VERSION", "CUDNN_SUBLIBRARY")
NO_CUDA = ["GPUDNN_NO_CUDA_HEADERS"]


def without_names(function):
    return Function(function.name, function.result, tuple(Parameter(p.type, "") for p in function.parameters))


def differences(kind, mine, theirs, describe):
    for name in sorted(set(mine) | set(theirs)):
        if name not in mine:
            yield f"{kind} {name} is missing"
        elif name not in theirs:
            yield f"{kind} {name} is not cuDNN's"
        elif describe(mine[name]) != describe(theirs[name]):
            yield f"{kind} {name}: {mine[name]}\n  cuDNN: {theirs[name]}"


def program(theirs):
    """(source, lines that it prints)"""
    lines = []
    for enum, names in sorted(theirs.enums.items()):
        lines.append(f'  std::printf("sizeof {enum} %zu %s\\n", sizeof({enum}), typeid({enum}).name());')
        lines += [f'  std::printf("{name} %lld\\n", static_cast<long long>({name}));' for name in names]
    for struct, members in sorted(theirs.structs.items()):
        lines.append(f'  std::printf("{struct} %zu %zu %s\\n", sizeof({struct}), alignof({struct}), typeid({struct}).name());')
        for member in members:
            place = f"offsetof({struct}, {member}), sizeof({struct}::{member}), typeid(decltype({struct}::{member})).name()"
            lines.append(f'  std::printf("{struct}.{member} %zu %zu %s\\n", {place});')
    # The names of types are parts of C++ symbols.
    lines += [f'  std::printf("{name} %s\\n", typeid({name}).name());' for name in sorted(theirs.opaque)]
    macros = [
        name
        for name in sorted(theirs.constants)
        if not name.endswith(("_H_", "_H")) and not name.startswith(THEIRS) and "(" not in name
    ]
    lines += [f'  std::printf("{name} %lld\\n", static_cast<long long>({name}));' for name in macros]
    lines.append('  std::printf("category %d\\n", static_cast<int>(CUDNN_STATUS_CATEGORY(3007)));')
    lines.append('  std::printf("specific %d\\n", static_cast<int>(CUDNN_STATUS_SPECIFIC_ERROR(3007)));')
    head = "#include <cudnn.h>\n#include <cudnn_backend.h>\n#include <cstddef>\n#include <cstdio>\n#include <typeinfo>\n"
    return f"{head}int main() {{\n" + "\n".join(lines) + "\n}\n", len(lines)


def output_of(compiler, source, include_directories, binary):
    command = [compiler, "-std=c++17", "-Wno-deprecated-declarations", "-Wno-invalid-offsetof", str(source), "-o", str(binary)]
    command += [f"-I{directory}" for directory in include_directories]
    subprocess.run(command, check=True)
    return subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout.splitlines()


def version(include):
    text = pathlib.Path(include, "cudnn_version.h").read_text(encoding="utf-8")
    return tuple(re.findall(r"#define CUDNN_(?:MAJOR|MINOR) (\d+)", text)[:2])


def main():
    c_compiler, cxx_compiler, work, ours, nvidia, cuda = sys.argv[1:7]
    if version(ours) != version(nvidia):
        print(f"skipped: the interface is that of cuDNN {version(ours)}, the headers found are of {version(nvidia)}")
        return SKIPPED
    mine = parse(c_compiler, f"{ours}/cudnn.h", "cudnn", [ours, cuda])
    theirs = parse(c_compiler, f"{nvidia}/cudnn.h", "cudnn", [nvidia, cuda])
    problems = list(differences("function", mine.functions, theirs.functions, without_names))
    problems += differences("enum", mine.enums, theirs.enums, set)
    problems += differences("struct", mine.structs, theirs.structs, tuple)
    problems += [f"opaque type {name} is missing" for name in sorted(theirs.opaque - mine.opaque)]
    # A program without CUDA's headers sees the same functions.
    bare = parse(c_compiler, f"{ours}/cudnn.h", "cudnn", [ours], NO_CUDA)
    problems += differences("function, without CUDA's headers,", bare.functions, theirs.functions, without_names)

    pathlib.Path(work).mkdir(parents=True, exist_ok=True)
    source = pathlib.Path(work, "values.cpp")
    text, lines = program(theirs)
    source.write_text(text, encoding="utf-8")
    mine_says = output_of(cxx_compiler, source, [ours, cuda], pathlib.Path(work, "values_ours"))
    theirs_say = output_of(cxx_compiler, source, [nvidia, cuda], pathlib.Path(work, "values_nvidia"))
    problems += [f"{a}   cuDNN: {b}" for a, b in zip(mine_says, theirs_say) if a != b]
    print("\n".join(problems))
    print(f"{len(theirs.functions)} functions, {len(theirs.enums)} enums, {len(theirs.structs)} structs; {lines} values")
    enough = len(theirs.functions) >= 200 and len(mine_says) == len(theirs_say) == lines and lines >= 700
    return 1 if problems or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
