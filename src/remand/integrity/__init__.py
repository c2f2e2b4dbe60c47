"""The integrity gate: finds what would make gates pass without the work being done; pure."""
