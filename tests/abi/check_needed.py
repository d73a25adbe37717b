"""Checks that the shared library needs no shared library but the C and C++ runtimes: no CUDA library above all, which it
loads itself where an operation profits from one.

  check_needed.py READELF LIBRARY

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
import sys

# libm and the loader are parts of the C runtime that libstdc++ needs itself, so they are in the process in any case.
ALLOWED = re.compile(r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux.*|libc\+\+|libc\+\+abi)\.so(\.\d+)*")


def main() -> int:
    readelf, library = sys.argv[1:]
    text = subprocess.run([readelf, "-d", library], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", text)
    foreign = [name for name in needed if not ALLOWED.fullmatch(name)]
    print("needed:", ", ".join(needed))
    if not needed:
        print("the list is empty, which no C++ library's is: readelf prints another format?")
    for name in foreign:
        print(f"{library} needs {name}; link it statically or load it at run time")
    return 1 if foreign or not needed else 0


if __name__ == "__main__":
    sys.exit(main())
