"""The story that `remand demo` tells: scripted agents under a real scheduler, on a real repository."""
