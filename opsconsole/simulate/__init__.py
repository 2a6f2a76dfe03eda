"""Fleets that do not exist: the live policies, router and scheduling rules on a virtual clock."""
