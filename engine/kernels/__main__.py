"""`python -m engine.kernels`: build the C operators now, at install, so that no start-up waits for a compiler.

Must not know: what the operators do. Trap: a machine without a compiler is fine; the engine then runs on torch alone.
"""

from __future__ import annotations

import sys

from engine.kernels.build import BuildError, built_library, cpu_features, fitting


def main() -> int:
    """Build every variant that fits this CPU; say which serves, or why none does."""
    for variant in fitting(cpu_features()):
        try:
            built_library(variant)
        except (OSError, BuildError) as reason:
            sys.stdout.write(f"C operators ({variant.name}): not built, {reason}\n")
        else:
            sys.stdout.write(f"C operators ({variant.name}): ready\n")
            return 0
    sys.stdout.write("no C operators: the engine will run on torch alone, slower\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
