"""What each host is started with: one host a file, each with a function `outfit`."""
