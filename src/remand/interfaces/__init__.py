"""Interfaces: they translate what comes from outside into commands and queries, and hold no rules."""
