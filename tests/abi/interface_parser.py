"""Reads declarations out of C headers: functions, enums, structs and opaque pointers of a cuDNN-like interface.

Good for headers in the style of this interface (no nested function types but one callback), not for C at large.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import re
import subprocess


@dataclasses.dataclass(frozen=True)
class Parameter:
    type: str  # normalized: "const void *", arrays as pointers
    name: str


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    result: str
    parameters: tuple


@dataclasses.dataclass
class Interface:
    functions: dict  # name -> Function
    enums: dict  # type name -> tuple of constant names
    structs: dict  # type name -> tuple of member names
    opaque: set  # names of types that are pointers to objects
    constants: set  # names of object-like macros with a value


def preprocess(compiler, header, include_directories, defines=(), macros=False):
    """The header as the C compiler sees it, or the list of its macros."""
    command = [compiler, "-x", "c", "-std=c99", "-E", "-dM" if macros else "-P"]
    command += [f"-I{directory}" for directory in include_directories if directory]
    command += [f"-D{define}" for define in defines] + [header]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _normalize_type(text):
    text = re.sub(r"\s+", " ", text.replace("*", " * ")).strip()
    text = re.sub(r"\* (?=\*)", "*", text)
    return re.sub(r"\bunsigned int\b", "unsigned", text)


def _parameter(text):
    """Splits "const int dimA[]" into type and name; a parameter without a name gets an empty one."""
    text = text.strip()
    match = re.fullmatch(r"(.*?)(\w+)\s*(\[\w*\])?", text, flags=re.S)
    kind, name, array = match.group(1), match.group(2), match.group(3)
    if not kind.strip() or name in ("int", "unsigned", "char", "float", "double", "size_t"):
        kind, name = text, ""
    return Parameter(_normalize_type(kind + (" *" if array else "")), name)


def _strip_attributes(text):
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)", " ", text)


def parse(compiler, header, prefix, include_directories, defines=()):
    """The declarations whose names start with `prefix` (lower case for functions and types)."""
    text = _strip_attributes(preprocess(compiler, header, include_directories, defines))
    text = re.sub(r"__device_builtin__|__extension__", " ", text)

    enums, structs, opaque, functions = {}, {}, set(), {}
    for match in re.finditer(r"typedef\s+enum\s*\w*\s*\{([^{}]*)\}\s*(\w+)\s*;", text):
        if match.group(2).startswith(prefix):
            entries = [entry.split("=")[0].strip() for entry in match.group(1).split(",")]
            enums[match.group(2)] = tuple(entry for entry in entries if entry)
    for match in re.finditer(r"typedef\s+struct\s*\w*\s*\{([^{}]*)\}\s*(\w+)\s*;", text):
        if match.group(2).startswith(prefix):
            members = re.findall(r"(\w+)\s*(?:\[\w+\])?\s*;", match.group(1))
            structs[match.group(2)] = tuple(members)
    for match in re.finditer(r"typedef\s+(?:struct\s+\w+|void)\s*\*\s*(\w+)\s*;", text):
        if match.group(1).startswith(prefix):
            opaque.add(match.group(1))
    for match in re.finditer(rf"([\w\s*]+?)\b({prefix}\w+)\s*\(([^(){{}};]*)\)\s*;", text):
        parameters = [] if match.group(3).strip() in ("", "void") else match.group(3).split(",")
        functions[match.group(2)] = Function(
            match.group(2), _normalize_type(match.group(1)), tuple(_parameter(p) for p in parameters)
        )

    constants = set()
    for line in preprocess(compiler, header, include_directories, defines, macros=True).splitlines():
        match = re.match(rf"#define ({prefix.upper()}_\w+) (\S.*)", line)
        if match:
            constants.add(match.group(1))
    return Interface(functions, enums, structs, opaque, constants)


def read_names(path):
    """The names in a list file: one a line, lines that start with # are comments."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith("#")]
