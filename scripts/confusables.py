"""Makes `src/remand/domain/access/confusables.py` from Unicode's confusables.txt (UTS #39), which is given as the argument.

Debian has the file in the source package `icu`, at source/data/unidata/confusables.txt.
"""

import re
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "remand" / "domain" / "access" / "confusables.py"
IN_NAMES = re.compile(r"[\w@.+\- \[\]:/]+")
WIDTH = 110
HEAD = '''"""Which characters look like which: Unicode {version}, confusables.txt. `scripts/confusables.py` made it; do not edit it.

Loaded only to look at a name that is not known yet. It holds the characters that can stand in a name or look like one that
can, as far as compatibility forms (NFKC) do not tell them apart already.

Copyright (c) 1991-2022 Unicode, Inc., under the Unicode License (unicode.org/terms_of_use.html).
"""

from __future__ import annotations

_GROUPS = (
'''
TAIL = ''')
PROTOTYPES: dict[int, str] = {
    int(code, 16): "".join(chr(int(part, 16)) for part in prototype.split("+"))
    for group in _GROUPS.split()
    for prototype, _, codes in (group.partition("="),)
    for code in codes.split(",")
}
"""What a character is replaced with before two names are compared, by its code point."""
'''


def main(path: str) -> None:
    """Reads the file and writes the module."""
    text = Path(path).read_text(encoding="utf-8-sig")
    version = re.search(r"^# Version: (\S+)", text, re.MULTILINE)
    groups: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        fields = line.partition("#")[0].split(";")
        if len(fields) < 3:
            continue
        source = chr(int(fields[0], 16))
        prototype = "".join(chr(int(code, 16)) for code in fields[1].split())
        is_wanted = IN_NAMES.fullmatch(source) or IN_NAMES.fullmatch(prototype)
        if is_wanted and unicodedata.normalize("NFKC", source) == source:
            groups["+".join(f"{ord(part):x}" for part in prototype)].append(f"{ord(source):x}")
    words = [f"{prototype}={','.join(sorted(codes))}" for prototype, codes in sorted(groups.items())]
    rows, row = [], ""
    for word in words:
        if row and len(row) + len(word) + 1 > WIDTH:
            rows.append(row)
            row = ""
        row += f"{word} "
    rows.append(row)
    lines = "".join(f'    "{row}"\n' for row in rows)
    TARGET.write_text(HEAD.format(version=version[1] if version else "?") + lines + TAIL, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
