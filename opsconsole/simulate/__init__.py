"""Backtests and what-ifs: the laws that run live, on a virtual fleet and a recorded load."""
