"""The agents' own hosts, one file a host: what their hooks say, and how they want to be answered."""
