"""The integrity gate: finds changes that make gates pass without the work being done. Pure functions."""
