"""The only place that chooses adapters."""
