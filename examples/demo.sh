#!/bin/sh
# The demo behind `make demo`: set up on a fresh machine, watch a small training whose data loading is slow, then ask
# whether more loader workers help. Watching and asking take about a minute and a half.
#
# A torch that python3 can already import is used as it is (.venv-demo sees it and nothing big is
# downloaded); otherwise the development environment .venv is made, torch included.
# Another interpreter:  make demo PYTHON=python3.12
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
# One loader worker, 5 ms a read: about 200 ms to load a batch, 40 ms to train on it. 110 steps take half a minute.
TRAINING="examples/vision.py --epochs 100 --image-size 64 --num-workers 1 --read-latency-ms 5"
STEPS="--steps 110"
# Windows of 4 s and 3 pairs show a difference as large as this one; a real question deserves the usual 45 s.
ASKED="--b num_workers=4 --window 4s --pairs 3 --yes"

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
say "  stoker run -- python $TRAINING $STEPS"
# shellcheck disable=SC2086 # words on purpose
stoker run -- python $TRAINING $STEPS

echo
say "do more loader workers help? The same training with its one (A) and with"
say "four (B), in turns, about a minute:"
say "  stoker ab $ASKED -- python $TRAINING"
# shellcheck disable=SC2086 # words on purpose
stoker ab $ASKED -- python $TRAINING

cat <<END

The first word is the verdict. WIN: B is faster, whatever noise this machine
has; by how much says the ratio, how surely its interval. A is the training as
it was watched above, B the same with four workers: no file was changed, and
what the six trials wrote is gone.

Try next:
  . $venv/bin/activate
  stoker why                                  # the page of the run again
  stoker knobs                                # what else can be asked about
  stoker run -- python examples/distill.py    # a small transformer
  stoker run -- python your_train.py          # your own, unchanged
  stoker ab --b bf16 -- python your_train.py --seed 0
END
