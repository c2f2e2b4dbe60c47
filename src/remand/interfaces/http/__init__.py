"""The HTTP interface: every command that makes sense from afar, with the rules and answers of the command line."""
