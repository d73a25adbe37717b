#!/usr/bin/env python3
"""Makes the manual page of a program: a template of docs/man, with the options that the program's --help lists.

usage: man_page.py PROGRAM TEMPLATE VERSION PAGE

In the template @OPTIONS@ becomes the options and arguments, @VERSION@ the version.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys


def entries_of(help_text):
    """(names, description) of each option and argument, in the order of the text."""
    found = []
    for line in help_text.splitlines():
        line = re.sub(r"^(  -\w),\s+", r"\1,", line)  # later versions of CLI11 align the long names
        if entry := re.match(r" {2}(\S.*?)(?: {2,}(.*))?$", line):
            found.append([entry[1], entry[2] or ""])
        elif re.match(r" {3,}\S", line) and found:
            found[-1][1] += " " + line.strip()
    return [(names.strip(), " ".join(text.split())) for names, text in found]


def escaped(text):
    """A line as troff takes it: a hyphen and a quote stay what they are, and a dot at the beginning is no command."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" * text.startswith(".") + text


def options_of(entries):
    lines = []
    for names, text in entries:
        name, _, rest = names.partition(" ")
        lines += [".TP", ("\\fB" + escaped(name).replace(",", "\\fR, \\fB") + "\\fR " + escaped(rest)).rstrip(),
                  escaped(text) + "." * (not text.endswith("."))]
    return "\n".join(lines)


def main():
    program, template, version, page = sys.argv[1:]
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    entries = entries_of(shown)
    if len(entries) < 3:
        raise SystemExit(f"{program} --help lists {len(entries)} options, which cannot be all:\n{shown}")
    text = pathlib.Path(template).read_text(encoding="utf-8")
    text = text.replace("@VERSION@", version).replace("@OPTIONS@", options_of(entries))
    pathlib.Path(page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
