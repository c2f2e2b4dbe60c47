"""Commands on who may do what: keys, whose events count, and tokens, by which callers of a server are known."""
