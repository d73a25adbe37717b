"""Makes the site of the documents and checks that doxygen had nothing to say and that every exported function has a page.

usage: check_site.py SOURCE_FOLDER SITE_FOLDER DOXYGEN

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT, SITE, DOXYGEN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
if not shutil.which(DOXYGEN):
    print("skipped: there is no doxygen")
    sys.exit(77)

shutil.rmtree(SITE / "html", ignore_errors=True)
result = subprocess.run([DOXYGEN, str(SITE / "Doxyfile")], capture_output=True, text=True, check=False)
said = (result.stdout + result.stderr).strip()
pages = dict(re.findall(r'<member kind="function">\s*<type>[^<]*</type>\s*<name>(\w+)</name>\s*<anchorfile>([^<]*)</anchorfile>',
                        (SITE / "gpudnn.tag").read_text(encoding="utf-8")))
exported = [name for table in ("symbols.txt", "symbols_ext.txt")
            for name in (ROOT / "tests" / "abi" / table).read_text(encoding="utf-8").split()]
# A page of its own, which says more than the declaration: since when the function is there.
lacking = [name for name in exported if name not in pages or not (SITE / "html" / pages[name]).exists()
           or not re.search(r"Since \d", (SITE / "html" / pages[name]).read_text(encoding="utf-8"))]
print(said)
print(f"{len(exported)} functions; without a page that says since when: {lacking}")
failed = result.returncode != 0 or said or lacking or len(exported) < 200 or not (SITE / "html" / "index.html").exists()
sys.exit(1 if failed else 0)
