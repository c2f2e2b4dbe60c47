"""The HTTP interface: every command that makes sense remotely, with the rules and answers of the command line."""
