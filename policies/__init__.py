"""Situation in, decision out: pure, standard library only."""
