"""Clients of forges, one module per kind: they read pull requests and reviews and act on them."""
