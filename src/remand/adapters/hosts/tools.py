"""A use of a tool, read from what the hosts say about it in their several ways."""

from __future__ import annotations

from remand.adapters.hosts.hook import ToolUse
from remand.adapters.hosts.payload import Payload

SHELLS = frozenset(
    {
        *("Bash", "bash", "powershell", "Shell", "shell", "shell_command", "exec_command", "local_shell"),
        *("run_shell_command", "terminal", "execute_bash", "run_terminal_cmd"),
    }
)
READERS = frozenset(
    {
        *("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch"),
        *(
            "view",
            "grep",
            "glob",
            "rg",
            "read_file",
            "read_many_files",
            "list_directory",
            "search_file_content",
        ),
    }
)
PATH_KEYS = ("file_path", "notebook_path", "path", "filePath", "absolute_path", "target_file")
PATCH_KEYS = ("command", "input", "patch", "cmd")
PATCH_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
REACH = 4096
CLAIMING = "mcp__remand__next_task"
"""The tool of our own by which a session claims a task, as most hosts call it."""
MAX_PATHS = 1000


def tool_use(
    name: str,
    asked: Payload,
    *,
    use_id: str = "",
    exit_code: int | None = None,
    has_failed: bool = False,
    output: str = "",
    milliseconds: float | None = None,
) -> ToolUse | None:
    """A use of a tool; None when the host names none."""
    if not name:
        return None
    return ToolUse(
        name,
        use_id=use_id,
        command=asked.text("command", "cmd") if name in SHELLS else "",
        paths=written(name, asked),
        exit_code=exit_code if name in SHELLS else None,
        has_failed=has_failed or bool(exit_code),
        output=output,
        duration=None if milliseconds is None else milliseconds / 1000,
    )


def written(name: str, asked: Payload) -> tuple[str, ...]:
    """The files that a tool writes, as far as its input names them: a field of it, or the lines of a patch."""
    if name in READERS or asked.text("command") == "view":
        return ()
    named = [asked.path(key) for key in PATH_KEYS] if name not in SHELLS else []
    return tuple(dict.fromkeys(filter(None, [*named, *patched(asked)])))


def patched(asked: Payload) -> list[str]:
    """The files that a patch names, whether a tool is given it or a shell."""
    text = next((text for key in PATCH_KEYS if "*** Begin Patch" in (text := asked.text(key))), "")
    found = []
    for line in text.splitlines():
        mark = next((mark for mark in PATCH_MARKS if line.startswith(mark)), "")
        if mark:
            found.append(line.removeprefix(mark).strip())
    return [path for path in found[:MAX_PATHS] if "\0" not in path]


def printed(answered: Payload) -> str:
    """What a tool has answered."""
    text = answered.text("stdout", "output", "llmContent", "content", "text")
    if not text:
        text = "\n".join(part.text("text") for part in answered.parts("llmContent", "content", "output"))
    return "\n".join(filter(None, (text, answered.text("stderr"))))


def told_code(answered: Payload) -> int | None:
    """The exit code that a host tells in a field of its own."""
    figure = answered.number("exit_code", "exitCode", "returnCode")
    if figure is None:
        figure = answered.part("metadata").number("exit_code", "exitCode")
    return None if figure is None else int(figure)


def worded_code(text: str, mark: str) -> int | None:
    """The exit code that a host tells in words, on the last line that starts with them.

    Hosts add such a line after what a command has printed, so a command cannot word its own code.
    """
    for line in reversed(text[-REACH:].splitlines()):
        figure = line.removeprefix(mark).rstrip(" .>")
        if line.startswith(mark) and figure.isascii() and figure.isdigit():
            return int(figure[:6])
    return None
