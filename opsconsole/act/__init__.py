"""Plans to world: every mutation goes through an actuator, and the default one refuses."""
