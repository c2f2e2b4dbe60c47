"""The Model Context Protocol: what hosts call tools, resources and prompts, translated to the command line."""
