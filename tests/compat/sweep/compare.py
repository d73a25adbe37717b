#!/usr/bin/env python3
"""Compares the statuses of two runs of the sweep, ours and theirs, and tells where ours is stricter.

    compare.py ours.txt theirs.txt [--all]

SPDX-License-Identifier: Apache-2.0
"""
import collections
import re
import sys


def read(path):
    rows = {}
    for line in open(path, errors="replace"):
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) >= 3:
            rows[parts[0], parts[1]] = (parts[2], parts[3].rstrip("|").strip() if len(parts) > 3 else "")
    return rows


def shape_of(text):
    """A reason without its numbers, so that the same reason is counted once."""
    return re.sub(r"\d+", "#", text)


def main():
    ours, theirs = read(sys.argv[1]), read(sys.argv[2])
    stricter, laxer, codes = (collections.OrderedDict() for _ in range(3))
    counts = collections.Counter()
    for key, (mine, why) in ours.items():
        if key not in theirs:
            counts["only ours ran"] += 1
            continue
        other, their_why = theirs[key]
        if mine == other:
            counts["same"] += 1
            continue
        if "error" in mine:
            print("DEVICE ERROR of ours:", *key)
        if other == "0":
            group, kind = stricter, (key[0], mine, shape_of(why))
        elif mine == "0":
            group, kind = laxer, (key[0], other)
        else:
            group, kind = codes, (key[0], mine, other)
        group.setdefault(kind, []).append((key[1], why))
    print("ours", len(ours), "theirs", len(theirs), dict(counts))
    for title, group in (("STRICTER", stricter), ("OTHER CODE (ours, theirs)", codes), ("LAXER", laxer)):
        print(f"-- {title}: {sum(map(len, group.values()))} combinations in {len(group)} kinds")
        for kind, rows in group.items():
            if title == "LAXER" and "--all" not in sys.argv:
                continue
            examples = rows if "--all" in sys.argv else rows[:2]
            print(f"{len(rows):5} {' '.join(kind[:2 if title == 'STRICTER' else 3])}: "
                  + " // ".join(example[0] for example in examples))
            if title == "STRICTER":
                print(f"      {rows[0][1][:200]}")


if __name__ == "__main__":
    main()
