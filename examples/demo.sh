#!/bin/sh
# The demo behind `make demo`: set up on a fresh machine, then watch a small training whose data loading is slow.
#
# A torch that python3 can already import is used as it is (.venv-demo sees it and nothing big is
# downloaded); otherwise the development environment .venv is made, torch included.
# Another interpreter:  make demo PYTHON=python3.12
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
# One loader worker, 2 ms a read: on one CPU core about 100 ms to load a batch, 40 ms to train on it, 30 s in all.
TRAINING="examples/vision.py --steps 220 --epochs 100 --image-size 96 --num-workers 1 --read-latency-ms 2"

say() { printf 'demo: %s\n' "$*"; }

stop() {
    printf 'error: %s\n  try:  %s\n' "$1" "$2" >&2
    exit 2
}

is_ready() { # made before, for this pyproject.toml, and its interpreter is still there
    [ -f "$1/.ready" ] && [ -z "$(find pyproject.toml -newer "$1/.ready")" ] && "$1/bin/python" -c '' 2>/dev/null
}

imports() { "$1" -c "import $2" 2>/dev/null; }

check_python() {
    command -v "$PYTHON" >/dev/null 2>&1 || stop "$PYTHON was not found" "make demo PYTHON=/path/to/python3"
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        stop "$PYTHON is $("$PYTHON" -V 2>&1); Stoker needs 3.11 or newer" "make demo PYTHON=python3.12"
}

show_torch_to() {
    # A venv made from a venv sees the packages of neither; a .pth file shows them to it.
    imports "$1/bin/python" torch && return
    "$PYTHON" -c 'import os, torch; print(os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))))' \
        >"$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch-of-the-demo.pth"
    imports "$1/bin/python" torch || stop "torch of $PYTHON cannot be used from $1" "make test, which makes .venv"
}

make_demo_venv() {
    say "making .venv-demo with the torch of $PYTHON (a minute, once)"
    "$PYTHON" -m venv --clear --system-site-packages .venv-demo ||
        stop "$PYTHON cannot make a virtual environment" "install its venv module (Debian, Ubuntu: python3-venv)"
    show_torch_to .venv-demo
    missing=""
    imports .venv-demo/bin/python numpy || missing="numpy"
    imports .venv-demo/bin/python PIL || missing="$missing pillow"
    # shellcheck disable=SC2086 # none, one or two words
    .venv-demo/bin/python -m pip install --quiet --disable-pip-version-check --editable . $missing
    touch .venv-demo/.ready
}

make_dev_venv() {
    say "$PYTHON has no torch: making .venv with one (a few minutes, once)"
    "${MAKE:-make}" --no-print-directory .venv/.ready PYTHON="$PYTHON"
}

if is_ready .venv-demo; then
    venv=.venv-demo
else
    check_python
    if imports "$PYTHON" torch; then
        make_demo_venv
        venv=.venv-demo
    else
        is_ready .venv || make_dev_venv
        venv=.venv
    fi
fi
PATH="$PWD/$venv/bin:$PATH"
export PATH

say "watching a training that waits for its data, about half a minute:"
say "  stoker run -- python $TRAINING"
# shellcheck disable=SC2086 # words on purpose
stoker run -- python $TRAINING

cat <<END

Try next:
  . $venv/bin/activate
  stoker run -- python examples/vision.py --num-workers 2 --read-latency-ms 2   # two loader workers
  stoker run -- python examples/vision.py --num-workers 2                       # and a fast disk
  stoker run -- python examples/offpolicy.py --steps 3000                       # RL (pip install gymnasium)
  stoker run --env __main__:Swarm.step -- python examples/onpolicy.py           # RL, simulator in torch
  stoker run -- python examples/distill.py                                      # a small transformer
  stoker run -- python your_train.py                                            # your own, unchanged
END
