#!/bin/sh
# Everything that is measured on a GPU for the host side, in one go; raw results into the folder given.
#   sh benchmarks/gpu_session.sh OUT
set -u
out=$1
export PYTHONPATH="src:carry" PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/machine.txt"
[ "${PART:-all}" = cost ] || python3 -m pytest -q -m gpu tests/gpu 2>&1 | tail -40 | tee "$out/gpu-test.txt"
for device in cpu cuda; do
    [ "${PART:-all}" = pages ] && continue
    python3 benchmarks/overhead/inside_cost.py --device $device --pairs "${PAIRS:-200}" --out "$out/inside_cost_$device.json" 2>&1 |
        tee "$out/inside_cost_$device.txt"
done
[ "${PART:-all}" = cost ] && exit
STOKER_HOME=/tmp/stoker-gpu
export STOKER_HOME
{
    python3 -m stoker doctor
    python3 -m stoker run -- python3 examples/vision.py --steps 300 --num-workers 1 --image-size 96 --read-latency-ms 2
    python3 -m stoker run -- python3 examples/vision.py --steps 600 --num-workers 8 --image-size 96
    python3 -m stoker run -- python3 examples/offpolicy.py --steps 3000
    python3 -m stoker run -- python3 tests/scripts/lightning_fit.py --steps 2000
    python3 -m stoker run -- python3 tests/gpu/scripts/blocking.py 300
} >"$out/pages.txt" 2>&1
tail -c 9000 "$out/pages.txt"
