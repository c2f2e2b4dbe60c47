"""Measures Remand beside its peers; `python -m benchmarks` prints the tables."""
