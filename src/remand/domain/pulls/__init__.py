"""Pull requests as a forge tells them, and what counts of all that is said there."""
