"""Facts about a fleet: frozen values and pure functions, standard library only. Knows nothing of I/O."""
