"""Remand: how a team of AI coding agents says no, and how no is respected."""
