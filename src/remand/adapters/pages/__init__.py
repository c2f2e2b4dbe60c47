"""Addresses that evidence names, looked at on the hosts that the policy allows."""
