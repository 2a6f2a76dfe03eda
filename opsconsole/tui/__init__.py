"""What the operator sees: a client of the agent, nothing more."""
