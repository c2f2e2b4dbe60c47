"""The Model Context Protocol: the tools, resources and prompts for hosts, translated to the command line."""
