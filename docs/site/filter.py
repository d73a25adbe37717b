#!/usr/bin/env python3
"""What doxygen reads in place of a file: a public header with its comments in doxygen's form, or a page whose links lead to
other pages alone.

In the headers a comment stands above what it describes and holds for every declaration up to the next empty line. A comment
that begins with dashes opens a section: it describes the types and constants that have no comment of their own, and the
functions whose comment says no more than since when they are there. Deeper indented lines of a comment are formulas and tables.

usage: filter.py FILE

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import sys

PATH = pathlib.Path(sys.argv[1]).resolve()


def prose(line):
    """Text in which nothing but `code` has a meaning."""
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(part if place % 2 else re.sub(r"([\\@<>#%&*_|~$])", r"\\\1", part) for place, part in enumerate(parts))


def body(lines):
    """The text of a comment: prose, and what is indented as it stands."""
    result, verbatim = [], False
    for line in lines:
        indented = line.startswith("  ")
        if indented and not verbatim:
            result += ["", "@verbatim"]
        if verbatim and not indented and line:
            result += ["@endverbatim"]
        verbatim = indented or (verbatim and not line)
        result.append(line if verbatim else prose(line))
    return result + (["@endverbatim"] if verbatim else [])


def comment_lines(text):
    """The lines between /* and */ without the stars at their beginning."""
    lines = text.strip()[2:-2].split("\n")
    return [lines[0].strip()] + [re.sub(r"^ \* ?", "", line).rstrip() for line in lines[1:]]


def documented(lines):
    return "/**\n" + "\n".join(body(lines)) + "\n*/\n"


def repeated(comment, code):
    """The comment above each declaration of a paragraph."""
    return comment + re.sub(r"\n(?=GPUDNN_EXPORT|typedef|#define)", "\n" + comment.replace("\\", r"\\"), code)


def trailing(code):
    """Comments behind the members of an enum or a struct describe them."""
    def convert(match):
        return f"{match[1]} /**< {prose(match[2])} */"
    return re.sub(r"^(\s+[^/\s][^/]*?)\s*/\*+ (.*?) \*/", convert, code, flags=re.MULTILINE | re.DOTALL)


def header(text):
    opening = re.match(r"/\*.*?\*/\n", text, re.DOTALL)
    lines = [line for line in comment_lines(opening[0]) if "SPDX" not in line]
    result = [f"/** @file\n{prose(lines[0])}\n" + "\n".join(body(lines[1:])) + "\n*/\n"]
    rest, end = text[opening.end():].rsplit("#ifdef __cplusplus\n}", 1) if "extern" in text else (text[opening.end():], None)
    title, section = "", []
    for part in re.split(r"\n(?=\n)", rest):  # paragraphs, each with the empty line before it
        while (found := re.match(r"\s*/\*.*?\*/\n?", part, re.DOTALL)) and found[0].lstrip() == found[0].lstrip("\n"):
            lines = comment_lines(found[0])
            part = part[found.end():]
            if lines[0].startswith("-----"):
                end_of_group = "\n/** @} */\n" if title else "\n"
                section = lines[1:]
                title = lines[0].strip("- ")
                title = title[:1].upper() + title[1:]
                result.append(f"{end_of_group}/** @name {prose(title)}\n" + "\n".join(body(section)) + "\n*/\n/** @{ */\n")
                continue
            if re.fullmatch(r"Since [\d.]+\.", " ".join(lines)) and section:
                lines = section + [""] + lines
            part = repeated(documented(lines), part)
            break
        else:
            if title and re.match(r"\s*(struct|typedef|#define)", part):
                part = repeated(documented([title + ".", ""] + section), part.lstrip("\n"))
        result.append("\n" + trailing(part))
    if title:
        result.append("\n/** @} */\n")
    return "".join(result) + ("\n#ifdef __cplusplus\n}" + end if end else "")


def anchor(page, heading, seen):
    """The name of a heading as links spell it, and the page before it: names are of the whole site."""
    name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    seen[name] = seen.get(name, -1) + 1
    return f"{page}-{name}" + (f"-{seen[name]}" if seen[name] else "")


def page(text):
    """Code as it stands; headings with names; links to what is no page of the site become their text."""
    seen = {}

    def heading(match):
        return f"{match[1]} {match[2]} {{#{anchor(PATH.stem, match[2], seen)}}}"

    def link(match):
        target, _, name = match[2].partition("#")
        if re.match(r"https?:", match[2]):
            return match[0]
        if name:
            return f"[{match[1]}](#{pathlib.Path(target).stem or PATH.stem}-{name})"
        return match[0] if target.endswith((".md", ".svg")) and "results" not in target else match[1]

    text = re.sub(r"^(##+) (.*)$", heading, text, flags=re.MULTILINE)
    parts = re.split(r"(```.*?```|`[^`\n]*`|^    .*?$)", text, flags=re.DOTALL | re.MULTILINE)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"<(?!/?\w+>)", "&lt;", parts[place])
    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, "".join(parts))


source = PATH.read_text(encoding="utf-8")
sys.stdout.write(page(source) if PATH.suffix == ".md" else header(source))
