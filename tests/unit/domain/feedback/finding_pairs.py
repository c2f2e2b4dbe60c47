"""Pairs of findings, an earlier and a later one, each labelled by hand: `same`, `opposite` or `neither`.

The rules were written with FIRST and SECOND in view; THIRD was written after them, to see how they do on what is new.
"""

from typing import NamedTuple


class Pair(NamedTuple):
    label: str
    before: str
    now: str
    path: str = "src/a.py"
    other_path: str = ""
    """Where the later one is; the same file when empty."""


FIRST = [
    Pair(
        "same",
        "Fork start uses raw svgPos instead of snapResult.",
        "Fork start still uses raw svgPos, not snapResult.",
    ),
    Pair(
        "same",
        "Snap computation is duplicated 3 times in handleMouseMove.",
        "The snap computation in handleMouseMove is still duplicated.",
    ),
    Pair("same", "The button has no accessible name.", "BLOCKING: button still has no accessible name"),
    Pair("same", "Missing null check on user.", "You still miss the null check on user."),
    Pair(
        "same",
        "Close the file handle when parsing fails.",
        "The file handle is not closed when parsing fails.",
    ),
    Pair(
        "same",
        "SQL is built by string concatenation, use parameters.",
        "SQL is still built with string concatenation. Use parameters!",
    ),
    Pair(
        "same",
        "Race between reader and writer on the cache map.",
        "There's still a race between the reader and writer on the cache map",
    ),
    Pair("same", "Typo: recieve should be receive", "typo: recieve -> receive"),
    Pair("same", "The retry loop never backs off.", "nit: retry loop never backs off", "src/net.py"),
    Pair(
        "same",
        "Timeout of 5 seconds is hard-coded; read it from settings.",
        "Read the timeout from settings, the 5 seconds are hard-coded.",
    ),
    Pair(
        "same",
        "Secrets are logged in plain text by the request logger.",
        "Secrets are logged in plain text by the request logger.",
        "src/a.py",
        "src/b.py",
    ),
    Pair(
        "same",
        "Please handle the empty list in total().",
        "total() breaks on the empty list, please handle it",
    ),
    Pair("opposite", "Add a null check for user.", "Remove the null check for user, it can't be null."),
    Pair("opposite", "Use tabs for indentation.", "Use spaces instead of tabs."),
    Pair("opposite", "Extract the date parsing into a helper.", "Inline the helper, it is used once."),
    Pair("opposite", "Please add a retry around fetch.", "The retry around fetch is unnecessary."),
    Pair(
        "opposite",
        "Remove the debug logging in the parser.",
        "Why was the debug logging in the parser removed? Put it back.",
    ),
    Pair("opposite", "Replace the list with a tuple here.", "Use a list instead of a tuple."),
    Pair("opposite", "Make this function async.", "Make this function sync again, nothing awaits."),
    Pair("opposite", "Split this module into two.", "Merge these two modules into one module again."),
    Pair("opposite", "Increase the timeout to 30 seconds.", "Reduce the timeout, 30 seconds is too long."),
    Pair("opposite", "Catch ValueError in load_config.", "Let the ValueError propagate from load_config."),
    Pair(
        "opposite",
        "Don't cache the token.",
        "Cache the token instead of fetching it each time; keep a token cache.",
        "src/auth.py",
    ),
    Pair(
        "opposite",
        "Prefer composition over inheritance for the exporters.",
        "Prefer inheritance over composition for the exporters.",
    ),
    Pair(
        "opposite", "Enable strict mode in the compiler options.", "Disable strict mode, it breaks the build."
    ),
    Pair("opposite", "Add docstrings to the private methods.", "Drop the docstrings of private methods."),
    Pair("opposite", "Use double quotes for strings.", "Use single quotes for strings."),
    Pair("opposite", "Use camelCase for these names.", "Use snake_case for these names."),
    Pair("opposite", "Keep the deprecated endpoint for one release.", "Delete the deprecated endpoint now."),
    Pair("opposite", "Export parseDate from this module.", "Don't export parseDate from this module."),
    Pair("neither", "Add a null check for user.", "Remove the null check for order."),
    Pair("neither", "Remove the unused import.", "Add the missing import of os."),
    Pair("neither", "Add a test for the empty list.", "Remove the sleep from the test of timeouts."),
    Pair("neither", "Rename this variable.", "Rename this function."),
    Pair("neither", "Missing docstring.", "Missing type annotation."),
    Pair("neither", "Add a docstring to parse().", "Remove the docstring of render()."),
    Pair("neither", "Handle the timeout of the upload.", "The download shows no progress."),
    Pair("neither", "This leaks memory in the worker loop.", "The worker loop should stop on SIGTERM."),
    Pair("neither", "Use a constant for 42.", "Use a context manager for the lock."),
    Pair("neither", "Add a changelog entry.", "Remove the trailing whitespace."),
    Pair("neither", "Extract the validation into a function.", "Inline CSS is not allowed here."),
    Pair("neither", "Please add tests.", "Please add documentation."),
    Pair("neither", "Increase the font size of the title.", "Reduce the padding of the sidebar."),
    Pair("neither", "Snap computation is duplicated.", "Fork start uses raw svgPos."),
    Pair("neither", "Use early returns here.", "Use a dict lookup here."),
    Pair("neither", "Missing null check.", "Missing null check.", "src/a.py", "src/b.py"),
    Pair("neither", "Drop support for Python 3.8 in the metadata.", "Add Python 3.13 to the test matrix."),
    Pair("neither", "The error message should name the file.", "The error code should be stable."),
]

SECOND = [
    Pair(
        "same",
        "Focus is lost when the dialog closes; return it to the trigger.",
        "When the dialog closes focus is still lost. Return it to the trigger please.",
    ),
    Pair(
        "same",
        "Colour contrast of the disabled label is below 4.5:1.",
        "contrast of disabled label still below 4.5:1",
    ),
    Pair("same", "Off by one: the last page is never shown.", "Last page is still never shown (off by one)."),
    Pair(
        "same",
        "process_order swallows every exception.",
        "process_order() is still swallowing every exception",
    ),
    Pair(
        "same",
        "Validate the webhook signature before parsing the body.",
        "The body is parsed before the webhook signature is validated.",
    ),
    Pair("same", "`id` shadows the builtin.", "nit: `id` still shadows the builtin"),
    Pair("same", "No test covers the expired token path.", "The expired token path has no test yet."),
    Pair(
        "same",
        "Index on created_at is missing, the query scans the table.",
        "The query scans the whole table: created_at index missing.",
    ),
    Pair("same", "Do not mutate the default argument.", "The default argument is still mutated."),
    Pair(
        "same", "N+1 queries in the order list view", "Still N+1 queries in the order list view, see the log"
    ),
    Pair("opposite", "Wrap the call in a transaction.", "No transaction needed here, remove it."),
    Pair(
        "opposite",
        "Inline this one-line function.",
        "Extract this into a function of its own again; the one-line version was better.",
    ),
    Pair("opposite", "Please restore the feature flag.", "Get rid of the feature flag."),
    Pair("opposite", "Use fetch rather than axios.", "Switch back to axios."),
    Pair(
        "opposite", "Raise the coverage threshold to 90.", "Lower the coverage threshold, 90 is too strict."
    ),
    Pair("opposite", "Make the cache eager.", "Prefer a lazy cache."),
    Pair("opposite", "Log the request id on every error.", "Stop logging the request id on errors."),
    Pair("opposite", "Hide the advanced settings by default.", "Don't hide the advanced settings."),
    Pair("opposite", "You should add a semaphore around the uploads.", "Drop the semaphore around uploads."),
    Pair("opposite", "Combine the two migrations.", "Split the migrations again, one per table."),
    Pair("opposite", "Avoid recursion here, use a loop.", "Use recursion here, the loop is unreadable."),
    Pair("opposite", "The comment above the regex is redundant.", "Add a comment above the regex."),
    Pair("neither", "Add a spinner to the save button.", "Remove the border of the save button."),
    Pair("neither", "Use a set for the lookups.", "Use f-strings for the messages."),
    Pair("neither", "Extract the retry policy.", "Merge main into this branch."),
    Pair("neither", "Add an index on user_id.", "Drop the index on legacy_code."),
    Pair("neither", "This name is misleading.", "This comment is misleading."),
    Pair("neither", "Keep the lines under 100 characters.", "Delete the commented-out lines."),
    Pair("neither", "Reduce the number of queries.", "Increase the log level to warning."),
    Pair("neither", "Test the happy path.", "Test the error path with a closed socket."),
    Pair("neither", "Enable the linter in CI.", "Disable the submit button while saving."),
    Pair("neither", "Return early when the list is empty.", "Return 404 when the user is gone."),
    Pair("neither", "Catch the exception in the worker.", "The exception message has a typo."),
    Pair(
        "neither", "Add error handling for the upload.", "Remove error handling from the tests of the parser."
    ),
    Pair("neither", "Don't use a global lock.", "Use a global constant for the page size."),
    Pair("neither", "Please update the README.", "Please update the lock file."),
]

THIRD = [
    Pair("same", "The migration is not reversible.", "This migration still isn't reversible"),
    Pair("same", "Keyboard users cannot reach the menu.", "The menu cannot be reached by keyboard users."),
    Pair(
        "same",
        "Passwords are compared with ==; use a constant-time comparison.",
        "Still comparing passwords with ==. Constant-time comparison, please.",
    ),
    Pair(
        "same",
        "config.yaml is read on every request.",
        "Reads config.yaml on every request, as I said last time.",
    ),
    Pair("same", "User input reaches the shell unescaped.", "Unescaped user input still reaches the shell!"),
    Pair("same", "The new endpoint has no rate limit.", "rate limit on the new endpoint?"),
    Pair(
        "same", "Rename `tmp` to something that says what it holds.", "`tmp` says nothing, please rename it."
    ),
    Pair(
        "same", "Translations are missing for the error dialog.", "The error dialog still lacks translations."
    ),
    Pair(
        "opposite",
        "Add pagination to the list endpoint.",
        "Remove pagination from the list endpoint; clients want everything.",
    ),
    Pair("opposite", "Drop the feature detection.", "Please bring the feature detection back."),
    Pair(
        "opposite", "Move the constants into their own module: split them out.", "Merge the constants back."
    ),
    Pair("opposite", "Use UTC instead of local time.", "Use local time instead of UTC."),
    Pair("opposite", "Do not retry on 500.", "Retry on 500."),
    Pair("opposite", "Disable the cache in tests.", "Enable the cache in tests again."),
    Pair("opposite", "The lock around the counter is unnecessary.", "Add a lock around the counter."),
    Pair("opposite", "Return None here.", "Do not return None here, raise."),
    Pair("opposite", "Convert this class to a function.", "Make it a class again instead of a function."),
    Pair("opposite", "Shorten the function name.", "The function name should be longer."),
    Pair("neither", "Add a label to the input.", "Remove the placeholder of the input."),
    Pair("neither", "Use UTC for created_at.", "Use the helper for parsing."),
    Pair("neither", "Do not retry on 500.", "Retry the flaky upload test."),
    Pair("neither", "Extract the header component.", "Inline the SVG icon."),
    Pair("neither", "Return None here.", "Do not log here."),
    Pair("neither", "Add a timeout to the socket.", "Remove the timeout decorator from the tests."),
    Pair("neither", "The name of the class is too long.", "The body of the class is too long."),
    Pair("neither", "Keep the old route.", "Remove old Python versions from CI."),
    Pair("neither", "Avoid magic numbers.", "Use the magic link flow for sign-in."),
    Pair("neither", "Allow empty titles.", "Forbid duplicate slugs."),
]
