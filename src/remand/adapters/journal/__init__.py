"""The journal of what agents really ran, and their hosts' transcripts as its second witness."""
