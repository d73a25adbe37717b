#!/usr/bin/env python3
"""Which functions of cuDNN a program or library uses, and what libgpudnn does for each.

usage: cudnn_imports.py [--library FILE] [--strings] [--markdown] BINARY...

  --library FILE   the libgpudnn.so (or libcudnn.so.9 of libgpudnn) to ask: it is loaded, and each function is called
                   with null arguments, which it survives; a function that is not built says so
  --strings        also names found in the file's text, for programs that look functions up by name (dlsym)
  --markdown       a table in Markdown

Without --library only the names are listed. Reads 64-bit little-endian ELF files; needs nothing but Python 3.8.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import ctypes
import mmap
import re
import struct
import sys

Symbol = collections.namedtuple("Symbol", "name defined version file kind size")

SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 11, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
HIDDEN = 0x8000  # of a version: not the default one
CUDNN_NAME = re.compile(r"cudnn[A-Z]\w+")
NOT_BUILT = "not built in this version"


class ElfError(Exception):
    """The file is not what this reader reads."""


class Elf:
    """The dynamic symbols of an ELF file, with their versions."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # frameworks' libraries have gigabytes
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ElfError("not a 64-bit little-endian ELF file")
        offset, size, count = struct.unpack_from("<40xQ10xHH", self.data, 0)
        fields = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.sections = [dict(zip(("name", "type", "flags", "addr", "offset", "size", "link", "info"), f)) for f in fields]

    def _section(self, kind):
        return next((s for s in self.sections if s["type"] == kind), None)

    def _string(self, table, offset):
        start = self.sections[table]["offset"] + offset
        return self.data[start : self.data.find(b"\0", start)].decode()

    def _needed_versions(self):
        """version index -> (version, file)"""
        versions, section = {}, self._section(SHT_GNU_VERNEED)
        at = section["offset"] if section else None
        for _ in range(section["info"] if section else 0):
            _, count, file, aux, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + aux
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self.data, entry)
                versions[index] = (self._string(section["link"], name), self._string(section["link"], file))
                entry += step
            at += following
        return versions

    def _defined_versions(self):
        """version index -> version; the first entry names the file itself"""
        versions, section = {}, self._section(SHT_GNU_VERDEF)
        at = section["offset"] if section else None
        for _ in range(section["info"] if section else 0):
            _, flags, index, _, _, aux, following = struct.unpack_from("<HHHHIII", self.data, at)
            if not flags & 1:
                versions[index] = self._string(section["link"], struct.unpack_from("<I", self.data, at + aux)[0])
            at += following
        return versions

    def symbols(self):
        section = self._section(SHT_DYNSYM)
        if section is None:
            return
        numbers, needed, defined = self._section(SHT_GNU_VERSYM), self._needed_versions(), self._defined_versions()
        for i in range(1, section["size"] // 24):
            name, info, _, index, _, size = struct.unpack_from("<IBBHQQ", self.data, section["offset"] + 24 * i)
            number = struct.unpack_from("<H", self.data, numbers["offset"] + 2 * i)[0] & ~HIDDEN if numbers else 0
            version, file = needed.get(number, ("", "")) if index == 0 else (defined.get(number, ""), "")
            yield Symbol(self._string(section["link"], name), index != 0, version, file, info & 15, size)

    def imports(self):
        """The cuDNN functions that the loader has to find elsewhere."""
        return [s for s in self.symbols() if not s.defined and CUDNN_NAME.fullmatch(s.name)]

    def mentioned(self):
        """Names of functions anywhere in the file: cudnn and a capital letter, as a whole zero-terminated string."""
        found = re.findall(rb"\0(cudnn[A-Z][A-Za-z0-9]+(?:_v\d)?)(?=\0)", self.data)
        return sorted({name.decode() for name in found})


class Library:
    """A libgpudnn, or a libcudnn.so.9 made of one, that answers for itself."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.prefix = "gpudnn" if self._has("gpudnnGetVersion") and not self._has("cudnnGetVersion") else "cudnn"
        self.last_error = self._function("GetLastErrorString")
        if not self._has("gpudnnGetLibraryVersion"):  # found through libcudnn.so.9 too, which needs libgpudnn
            raise ElfError("not libgpudnn, nor a libcudnn.so.9 of it; another library might not survive the question")

    def _has(self, name):
        return hasattr(self.library, name)

    def _function(self, stem):
        return getattr(self.library, self.prefix + stem)

    def serves(self, name):
        """(word, reason): served, refused or missing."""
        stem = name[len("cudnn") :]
        if not self._has(self.prefix + stem):
            return "missing", "no such function in cuDNN 9.19"
        if stem in ("GetLastErrorString", "GetErrorString") or not stem:
            return "served", ""
        text = ctypes.create_string_buffer(1024)
        self.last_error(text, ctypes.c_size_t(len(text)))
        self._function(stem)(*[ctypes.c_void_p(None)] * 40)
        self.last_error(text, ctypes.c_size_t(len(text)))
        reason = text.value.decode(errors="replace")
        if NOT_BUILT in reason or "internal function of cuDNN" in reason:
            return "refused", reason.split(": ", 1)[-1]
        return "served", ""


def report(path, arguments, library):
    elf = Elf(path)
    rows = {s.name: (s.version, s.file) for s in elf.imports()}
    if arguments.strings:
        for name in elf.mentioned():
            rows.setdefault(name, ("", "by name"))
    if arguments.markdown:
        print(f"| function of {path} | version | libgpudnn |\n|---|---|---|")
    counts = collections.Counter()
    for name in sorted(rows):
        version, file = rows[name]
        word, reason = library.serves(name) if library else ("", "")
        counts[word] += 1
        told = f"{word}: {reason}" if reason else word
        if arguments.markdown:
            print(f"| `{name}` | {version or file} | {told} |")
        else:
            print(f"{name:60} {version or file or '-':24} {told}".rstrip())
    words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()) if word)
    print(f"{'' if not arguments.markdown else chr(10)}{path}: {len(rows)} functions" + (f", {words}" if words else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binaries", nargs="+", metavar="BINARY")
    parser.add_argument("--library")
    parser.add_argument("--strings", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    failed = False
    try:
        library = Library(arguments.library) if arguments.library else None
    except (OSError, ElfError) as error:
        sys.exit(f"{arguments.library}: {error}")
    for path in arguments.binaries:
        try:
            report(path, arguments, library)
        except (OSError, ElfError, struct.error, ValueError, IndexError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
