"""Checks what the libraries under cuDNN's names export: exactly the names of some lists, as functions with a size, each
with the symbol version that programs built with cuDNN ask for; and that libgpudnn itself has nothing under cuDNN's names.

usage: check_symbols.py LIBRARY_DIRECTORY LIBGPUDNN SYMBOLS_LIST [CUDNN_LIBRARY_DIRECTORY]

With the last argument NVIDIA's own libcudnn.so.9 is read (not loaded), and must export the same names and versions.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "abi"), str(TESTS.parent / "scripts")]
from cudnn_imports import Elf  # noqa: E402
from interface_parser import read_names  # noqa: E402

STT_FUNC = 2
INTERNAL = {"cudnnGetBackdoor", "cudnnSetBackdoor", "cudnnSetBackdoorEx", "cudnnGetRNNDropoutLocationsInternal"}
PARTS = ("graph", "ops", "cnn", "adv")
NAMES_ONLY = ("engines_precompiled", "engines_runtime_compiled", "heuristic")


def exported(path):
    """name -> symbol, without the absolute ones that name the versions"""
    return {s.name: s for s in Elf(str(path)).symbols() if s.defined and not s.name.startswith(("libcudnn", "GPUDNN_"))}


def check(path, expected):
    symbols, node = exported(path), path.name
    for name in sorted(set(symbols) - expected):
        yield f"{node} exports {name}, which is in no list"
    for name in sorted(expected - set(symbols)):
        yield f"{node} does not export {name}"
    for name, symbol in sorted(symbols.items()):
        if symbol.version != node:
            yield f"{node}: {name} has version '{symbol.version}'"
        if symbol.kind != STT_FUNC or symbol.size == 0:
            yield f"{node}: {name} is no function with a size"


def compare_with_nvidia(directory, ours):
    whole = exported(pathlib.Path(directory, "libcudnn.so.9"))
    theirs = {name: symbol.version for name, symbol in whole.items()}
    mine = {name: symbol.version for name, symbol in ours.items()}
    for name in sorted(set(mine) ^ set(theirs)):
        yield f"{name} is exported by one of libgpudnn's and NVIDIA's libcudnn.so.9 alone"
    for name in sorted(set(mine) & set(theirs)):
        if mine[name] != theirs[name]:
            yield f"{name}: version '{mine[name]}', NVIDIA's '{theirs[name]}'"


def main():
    directory, libgpudnn, symbols_list = (pathlib.Path(p) for p in sys.argv[1:4])
    public = {"cudnn" + name.removeprefix("gpudnn") for name in read_names(symbols_list)}
    problems = list(check(directory / "libcudnn.so.9", public | INTERNAL))
    union = set()
    for part in PARTS:
        names = set(exported(directory / f"libcudnn_{part}.so.9"))
        if names & union:
            problems.append(f"two parts export {sorted(names & union)}")
        union |= names
        problems += check(directory / f"libcudnn_{part}.so.9", names)
    if union != public:
        problems.append(f"the parts together lack {sorted(public - union)} or have too much: {sorted(union - public)}")
    for part in NAMES_ONLY:
        problems += check(directory / f"libcudnn_{part}.so.9", set())
    foreign = [s.name for s in Elf(str(libgpudnn)).symbols() if s.name.startswith("cudnn")]
    problems += [f"{libgpudnn.name} knows {name}" for name in foreign]
    if len(sys.argv) > 4:
        problems += compare_with_nvidia(sys.argv[4], exported(directory / "libcudnn.so.9"))
        print("compared with NVIDIA's libcudnn.so.9")
    print("\n".join(problems))
    print(f"{len(public)} public and {len(INTERNAL)} internal names, {len(union)} in the parts")
    return 1 if problems or len(public) < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
