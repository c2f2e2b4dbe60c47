"""The story that `remand demo` tells, on a real repository with real processes."""
