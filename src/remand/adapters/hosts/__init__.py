"""The hosts that agents run in, one module per host: how their hook calls are read and answered."""
