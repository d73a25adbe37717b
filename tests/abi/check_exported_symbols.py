"""Checks that a shared library exports exactly the symbols of some lists, no more and no fewer.

usage: check_exported_symbols.py NM LIBRARY LIST...

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys

from interface_parser import read_names


def main():
    nm, library, lists = sys.argv[1], sys.argv[2], sys.argv[3:]
    output = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    symbols = [line.split()[1:] for line in output.splitlines() if line.strip()]
    # Absolute symbols (A) are version names such as those that a linker script introduces.
    exported = {name.split("@")[0] for kind, name in symbols if kind != "A"}
    expected = {name for path in lists for name in read_names(path)}
    for name in sorted(exported - expected):
        print(f"exported, but in no list: {name}")
    for name in sorted(expected - exported):
        print(f"in a list, but not exported: {name}")
    print(f"{len(exported)} symbols exported, {len(expected)} expected")
    return 0 if exported == expected else 1


if __name__ == "__main__":
    sys.exit(main())
