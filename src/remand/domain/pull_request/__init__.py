"""Pull requests as a forge reports them, and what counts of the reviews and comments on them."""
