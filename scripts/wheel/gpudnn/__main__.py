"""Runs programs with libgpudnn in cuDNN's place.

usage: python -m gpudnn run PROGRAM [ARGUMENT...]   with libcudnn.so.9 of this package preloaded
       python -m gpudnn path                        prints the folder of the libraries

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import sys

# Python's search path for what looks for nvidia/cudnn/lib in it, as PyTorch does. It is a folder of this package's, so that no file
# of NVIDIA's package is replaced.
SITE = pathlib.Path(__file__).resolve().parent / "site"
LIBRARIES = SITE / "nvidia" / "cudnn" / "lib"


def before(value, variable, separator=":"):
    return separator.join([str(value)] + ([os.environ[variable]] if os.environ.get(variable) else []))


def main(arguments):
    if arguments == ["path"]:
        print(LIBRARIES)
        return 0
    if len(arguments) < 2 or arguments[0] != "run":
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    if set(" :") & set(str(LIBRARIES)):
        print(f"LD_PRELOAD takes no path with a space or a colon: {LIBRARIES}", file=sys.stderr)
        return 2
    environment = os.environ | {
        "LD_PRELOAD": before(LIBRARIES / "libcudnn.so.9", "LD_PRELOAD"),
        "LD_LIBRARY_PATH": before(LIBRARIES, "LD_LIBRARY_PATH"),
        "PYTHONPATH": before(SITE, "PYTHONPATH"),
    }
    try:
        os.execvpe(arguments[1], arguments[1:], environment)
    except OSError as error:
        print(f"{arguments[1]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
