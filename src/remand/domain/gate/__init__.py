"""Gates: what is measured of a done claim, against what, and what the result is."""
