"""Forges, one module per kind: what people say there of the work."""
