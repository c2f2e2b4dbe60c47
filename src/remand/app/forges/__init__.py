"""Reviews that people give on a forge: read there, judged here."""
