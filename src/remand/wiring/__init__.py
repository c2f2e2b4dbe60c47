"""The only package that chooses adapters."""
