#!/bin/sh
# What is measured on a GPU, in one go; raw results into the folder given. Pure-Python wheels that the machine
# lacks (gymnasium) may lie unpacked in carry/.
#   sh benchmarks/on_gpu.sh OUT [PAIRS]
set -u
out=$1
pairs=${2:-200}
export PYTHONPATH="$PWD/src:$PWD/carry" PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 STOKER_HOME="$out/.stoker"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/machine.txt"
python3 -m pytest -q -m gpu tests/gpu 2>&1 | tail -15 | tee "$out/gpu-test.txt"
{
    python3 -m stoker doctor
    python3 -m stoker run -- python3 examples/vision.py --steps 400 --num-workers 8 --image-size 96
    python3 -m stoker run -- python3 examples/offpolicy.py --steps 2500
    python3 -m stoker run -- python3 tests/gpu/scripts/blocking.py 300
} >"$out/pages.txt" 2>&1
tail -c 7000 "$out/pages.txt"
python3 benchmarks/record_gpu.py --out "$out/recording.jsonl"
for no_gpm in 0 1; do
    STOKER_NO_GPM=$no_gpm python3 benchmarks/overhead/gpu_watcher.py --pairs 40 --seconds 10 \
        --out "$out/gpu_watcher_no_gpm_$no_gpm.json"
done
python3 benchmarks/overhead/inside_cost.py --device cuda --loop "RL 2 ms" --loop "RL 20 ms" \
    --pairs "$pairs" --out "$out/inside_cost_cuda.json" 2>&1 | tee "$out/inside_cost_cuda.txt"
