"""The page on the integrity gate says what the gate does."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/render_integrity.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
