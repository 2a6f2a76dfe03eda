"""opsconsole: see, forecast and scale LLM inference replicas. Importing this package is free: version only."""

__version__ = "0.1.0"
