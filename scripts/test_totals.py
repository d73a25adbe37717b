#!/usr/bin/env python3
"""Prints "N passed, N failed, N skipped" for a JUnit report of ctest.

A GoogleTest program counts with each of its cases, by the summary that it printed; any other test counts once. A test
that failed without a failed case in its summary (it crashed, or a sanitizer spoke) counts as one more failure.

usage: test_totals.py REPORT

SPDX-License-Identifier: Apache-2.0
"""
import re
import sys
import xml.etree.ElementTree as ElementTree


def cases(output, word):
    """The number in GoogleTest's closing "[  WORD  ] N tests", 0 without one."""
    found = re.search(r"^\[ +%s +\] (\d+) tests?[.,]" % word, output, re.MULTILINE)
    return int(found.group(1)) if found else 0


def totals(report):
    passed = failed = skipped = 0
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        status = test.get("status")
        output = test.findtext("system-out") or ""
        ran = re.search(r"^\[=+\] (\d+) tests? from .* ran\.", output, re.MULTILINE)
        if ran:
            passed += cases(output, "PASSED")
            skipped += cases(output, "SKIPPED")
            lost = int(ran.group(1)) - cases(output, "PASSED") - cases(output, "SKIPPED")
            if status == "fail":
                failed += max(lost, 1)
            else:  # ctest wanted it to fail
                passed += lost
        elif status == "run":
            passed += 1
        elif status == "fail":
            failed += 1
        else:
            skipped += 1
    return passed, failed, skipped


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("%d passed, %d failed, %d skipped" % totals(sys.argv[1]))
