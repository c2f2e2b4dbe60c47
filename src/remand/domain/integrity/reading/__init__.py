"""Takes files apart: languages, tests, assertions, comments, commands and settings."""
