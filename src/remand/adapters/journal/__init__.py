"""The journal of what agents really ran, and their hosts' transcripts, which confirm it."""
