"""What gates need from the system: running commands, collecting test results, finding tools."""
