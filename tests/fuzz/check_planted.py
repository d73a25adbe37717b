"""A planted fault is found by the driver of the fuzz targets and by scripts/fuzz.sh; both tell a file that has its input.

usage: check_planted.py FUZZ_SH FOLDER_OF_PROGRAMS
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def run(command, **environment):
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    return result.returncode, result.stdout + result.stderr


def expect(good, text):
    if not good:
        sys.exit(f"FAILED: {text}")


def check_input(found, output, program):
    expect(found, f"no path of an input is told: {output}")
    path = pathlib.Path(found[1])
    expect(path.is_file() and b"999" in path.read_bytes(), f"{path} is not the input that crashes")
    expect(run([program, path])[0] != 0, "the input alone does not crash")


def main():
    script, programs = sys.argv[1:]
    program = f"{programs}/fuzz_planted"
    with tempfile.TemporaryDirectory() as folder:
        harmless = pathlib.Path(folder, "harmless")
        harmless.write_text("length=12")
        status, output = run([program, harmless])
        expect(status == 0 and "executed_units: 1" in output, f"a harmless input fails: {output}")
        status, output = run([program, "-runs=100000", f"-artifact_prefix={folder}/", "--lines", harmless])
        expect(status == 1, f"the driver ends with {status}: {output}")
        check_input(re.search(r"Test unit written to (.*)", output), output, program)

        by_script = {"FUZZ_BINARIES": programs, "FUZZ_WORK": f"{folder}/work"}
        status, output = run([script, "--runs", "100000", "--seconds", "60", "planted"], **by_script)
        expect(status == 1 and re.search(r"^planted .* FAILED$", output, re.M), f"fuzz.sh ends with {status}: {output}")
        check_input(re.search(r"^  input: (.*)", output, re.M), output, program)

        status, output = run([script, "--runs", "500", "--at-once", "2", "problem_text", "plan_json"], **by_script)
        counts = [int(count) for count in re.findall(r"^(?:problem_text|plan_json) +(\d+) .* ok$", output, re.M)]
        expect(status == 0 and len(counts) == 2 and min(counts) > 500, f"fuzz.sh ends with {status}: {output}")
        status, output = run([script, "--runs", "500", "problem_text", "nonsense"], **by_script)
        expect(status == 1 and re.search(r"^nonsense +0 .* FAILED$", output, re.M), f"fuzz.sh takes nonsense: {output}")
    print("ok")


if __name__ == "__main__":
    main()
