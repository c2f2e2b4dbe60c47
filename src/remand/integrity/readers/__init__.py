"""Parsers of files: languages, tests, assertions, comments, commands and settings."""
