"""Gates: the measurement of a done claim, its comparison, and the result."""
