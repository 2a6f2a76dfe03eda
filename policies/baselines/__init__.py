"""Other autoscalers' laws, exact, to be compared with."""
