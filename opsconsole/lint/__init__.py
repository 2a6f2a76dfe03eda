"""The prompt-prefix linter: finds what breaks the prefix cache and proves what moving it wins.

Reads request logs, sources and templates; must not know agents, engines or screens. The trap: never report a value for
its shape alone. Only text that diverges, with reusable text behind it, costs anything.
"""
