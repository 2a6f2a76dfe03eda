"""`python -m opsconsole.local.child PARENT SIGNAL MODULE ARGS...`: ties itself to its parent, then becomes the module.

Knows nothing of the module. Trap: nothing heavy may be imported before the tie, or a parent that dies meanwhile leaves
an orphan.
"""

from __future__ import annotations

import runpy
import signal
import sys

from opsconsole.local.lifeline import tie_to_parent


def main() -> None:
    """Tie, then run the module as if it had been started by itself."""
    parent, death, module, *args = sys.argv[1:]
    tie_to_parent(int(parent), signal.Signals(int(death)))
    sys.argv = [module, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
