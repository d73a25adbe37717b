#!/usr/bin/env python3
"""Drives libgpudnn's libcudnn.so.9 by NVIDIA's cudnn-frontend for Python, on the host backend, and compares with NumPy.

usage: frontend_check.py LIBCUDNN [--only TEXT]

  LIBCUDNN   libgpudnn's libcudnn.so.9; its libgpudnn.so.1 must be beside it or in the folder above's src
  --only     runs the cases whose names hold TEXT

Needs no GPU: pip install nvidia-cudnn-frontend numpy ml_dtypes, and a C compiler. The frontend itself calls the
CUDA runtime for copies and fills; a library of a few functions on host memory, compiled on the way, stands in for it.
Without the frontend the check is skipped, with status 77. What the frontend itself keeps for a later cuDNN than 9.19 is
counted apart: with 1.32 the slice.

Each case builds a graph by the frontend, which chooses operations, heuristics, plans; it must run, and its outputs must
be NumPy's within the case's bound.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

RUNTIME = """
#include <stddef.h>
#include <string.h>
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) { memcpy(to, from, bytes); return 0; }
int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) { memset(to, value, bytes); return 0; }
int cudaRuntimeGetVersion(int* version) { *version = 12080; return 0; }
int cudaGetDevice(int* device) { *device = 0; return 0; }
int cudaGetLastError(void) { return 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaStreamSynchronize(void* stream) { return 0; }
int cudaStreamIsCapturing(void* stream, int* status) { *status = 0; return 0; }
int cudaStreamGetCaptureInfo_v2(void* stream, int* status) { *status = 0; return 0; }
int cudaStreamGetCaptureInfo_v3(void* stream, int* status) { *status = 0; return 0; }
const char* cudaGetErrorString(int error) { return "an error of the stand-in for the CUDA runtime"; }
"""


def start(library):
    """Runs this script again where the loader finds the library and the stand-in."""
    if importlib.util.find_spec("cudnn") is None or importlib.util.find_spec("ml_dtypes") is None:
        print("skipped: pip install nvidia-cudnn-frontend numpy ml_dtypes")
        return 77
    library = pathlib.Path(library).resolve()
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work, "runtime.c")
        source.write_text(RUNTIME)
        runtime = pathlib.Path(work, "libcudart.so.12")
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", runtime, source], check=True)
        pathlib.Path(work, "libcudart.so.13").touch()  # an empty file hides an installed one; the frontend wants just one
        pathlib.Path(work, "libcudnn.so.9").symlink_to(library)
        folders = [work, str(library.parent), str(library.parent.parent), str(library.parent.parent / "src")]
        environment = dict(os.environ, GPUDNN_BACKEND="host", LD_LIBRARY_PATH=os.pathsep.join(folders),
                           CUDNN_FRONTEND_CUDART_LIB_NAME=str(runtime), FRONTEND_CHECK="1", LD_PRELOAD=str(library))
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


if __name__ == "__main__" and "FRONTEND_CHECK" not in os.environ:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("library")
    parser.add_argument("--only", default="")
    sys.exit(start(parser.parse_args().library))

import cudnn  # noqa: E402
from frontend_cases import operations, norms, attention, scaled  # noqa: E402, F401: in this order, which numbers the cases
from frontend_cases.harness import ATTENTION, CASES, Case  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    failed = gated = ran = 0
    for number, (name, body) in enumerate(CASES):
        if only not in name:
            continue
        ran += 1
        try:
            c = Case(number)
            body(c)
            c.run()
            if name.startswith(("sdpa ", "sdpa_backward ")) and ATTENTION not in c.plan:
                raise AssertionError(f"the attention engine did not take the graph; the plan is {c.plan}")
        except Exception as error:  # noqa: BLE001: whatever a case raises is its result
            if "requires 9." in str(error) or "requires cuDNN" in str(error):
                gated += 1
                print(f"not for cuDNN 9.19: {name}: {error}")
                continue
            failed += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"failed: {name}: {' '.join(str(error).split())[:600]} ({where.name}, line {where.lineno})")
    print(f"frontend {cudnn.__version__}, library {cudnn.backend_version()}: {ran - failed - gated} of {ran} cases pass, "
          f"{gated} need a later cuDNN")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
