#!/bin/sh
# What is measured on a GPU; raw results into the folder given. Pure-Python wheels that the machine lacks
# (gymnasium) may lie unpacked in carry/. Minutes each: tests 8 (TESTS=unchanged: the first part, 2), pages 3, busy 3.5, calls 1.5, injected 2.5 (with GPM and
# without), record 0.5, watcher 3, cost 6, profilers 4, lab 9 (with GPM and without; what is in carry/lab.json is not
# done again; options of the lab's run.py in LAB), aa 4 (identical runs, until there are 60), answers 4 each (their names in
# ASK, as `onpolicy_compile offpolicy_compile`; then `python benchmarks/ab/answered.py OUT/answers --save FILE`).
# steady 3.5 (speeds called steady against those of long runs), gains 7 (what the fixes of faults win that make sense on a GPU
# alone, and all their doses, 0 among them; options of the lab's run.py in GAINS), deep_window 6 (what a deep window costs, on two
# loops, three times each; REPEATS). The last two are estimates: gains has not been run with dose 0 and card_neighbour (50 trainings,
# 40 of 6 s and 10 of 3; a neighbour imports torch while the card is held), deep_window not at all (18 processes of 12 s and their start).
# The cost of one loop alone, with more pairs: LOOP="small RL" PAIRS=5000 (350 s).
#   sh benchmarks/on_gpu.sh OUT [tests] [pages] [busy] [calls] [injected] [record] [watcher] [cost] [profilers] [lab]
#       [aa] [answers] [steady] [gains] [deep_window]
set -u
out=$1
shift
[ $# -gt 0 ] || set -- tests pages busy calls injected record watcher cost profilers
export PYTHONPATH="$PWD/src:$PWD/carry" PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 STOKER_HOME="$out/.stoker"
# Or each start of Python compiles torch anew, where the machine forbids to keep that.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-$HOME/.cache/pyc}"

measured() { # NAME COMMAND…
    name=$1
    shift
    python3 "$@" --out "$out/$name.json" 2>&1 | tee "$out/$name.txt"
}

page() {
    echo "\$ stoker run $*"
    python3 -m stoker run "$@" 2>&1
}

pages() {
    python3 -m stoker doctor
    page -- python3 examples/vision.py --images 2000 --epochs 100 --steps 1200 --num-workers 8 --image-size 96
    page -- python3 examples/offpolicy.py --steps 2500
    page --env __main__:Swarm.step -- python3 examples/onpolicy.py --num-envs 4096 --iterations 120
    page -- python3 examples/distill.py --steps 1500 --num-workers 8 --width 256 --layers 6 --bf16
    page -- python3 benchmarks/public_trainers/timm_pieces.py --seconds 20
    page -- python3 benchmarks/public_trainers/lightning_trainer.py --seconds 20
    page -- python3 tests/gpu/scripts/blocking.py 300
}

lab() {
    recordings=$(mktemp -d)
    [ ! -f carry/lab.json ] || cp carry/lab.json "$out/lab.json"
    # shellcheck disable=SC2086
    measured lab benchmarks/pathologies/run.py --device cuda --both --no-fixes --doses 2 --budget "${BUDGET:-540s}" --resume \
        --keep-recordings "$recordings" ${LAB:-}
    tar -cf "$out/lab_recordings.tar" -C "$recordings" .
}

gains() { # one watcher, and no deep window in the middle: the script's own clock counts
    # shellcheck disable=SC2086
    measured gains benchmarks/pathologies/run.py --device cuda --half first --doses 0 1 2 3 --budget "${BUDGET:-540s}" \
        --only launch_bound implicit_sync pageable small_batch tensor_off cpu_part thrash leak dram_chain card_neighbour ${GAINS:-}
}

aa() {
    [ -f "$out/aa_study.json" ] || cp benchmarks/results/h200_2026-11-18/aa_study.json "$out/"
    python3 benchmarks/ab/aa_study.py --runs 30 --seconds 6 --out "$out/aa_study.json"
}

answers() {
    set --
    for name in ${ASK:-onpolicy_compile offpolicy_compile distill_compile vision_compile}; do
        set -- "$@" --only "$name"
    done
    python3 benchmarks/ab/answers.py --out "$out/answers" --minutes 9 "$@"
    tar -czf "$out/answers.tar.gz" -C "$out" answers # many small files, deep down
}

steady() { # each long enough for three claims of 3000 ticks
    runs=$(mktemp -d)
    for words in "offpolicy.py --steps ${TICKS:-12000}" "onpolicy.py --num-envs 1024 --iterations $((${TICKS:-12000} / 16))" \
        "distill.py --steps ${TICKS:-12000} --num-workers 4" "vision.py --images 500 --epochs 1000 --steps ${TICKS:-12000} --num-workers 8"; do
        # shellcheck disable=SC2086
        STOKER_HOME="$runs" python3 -m stoker run -- python3 examples/$words >"$out/steady_${words%%.*}.txt" 2>&1
    done
    tar -czf "$out/steady_ticks.tar.gz" -C "$runs" --exclude outside runs # to be asked again elsewhere
    measured steady benchmarks/steady/real.py "$runs"/runs/*
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/machine.txt"
for part in "$@"; do
    case $part in
    tests) python3 tests/gpu/together.py ${TESTS:-} 2>&1 | tee "$out/gpu-test.txt" ;;
    pages) pages >"$out/pages.txt" 2>&1 && tail -c 9000 "$out/pages.txt" ;;
    busy) measured gpu_busy benchmarks/accuracy/gpu_busy.py ;;
    calls) measured nvml_calls benchmarks/overhead/nvml_calls.py ;;
    injected) measured gpu_injected benchmarks/accuracy/gpu_injected.py --both ;;
    record) python3 benchmarks/record_gpu.py --out "$out/recording.jsonl" ;;
    watcher)
        measured gpu_watcher benchmarks/overhead/gpu_watcher.py --seconds 10
        STOKER_NO_GPM=1 measured gpu_watcher_no_gpm benchmarks/overhead/gpu_watcher.py --seconds 10
        ;;
    cost) measured gpu_cost benchmarks/overhead/gpu_cost.py --subject stoker --pairs "${PAIRS:-1000}" \
        ${LOOP:+--loop "$LOOP"} ;;
    profilers) measured gpu_cost_others benchmarks/overhead/gpu_cost.py \
        --subject "profiler cuda" --subject profiler --subject traceml ;;
    lab) lab ;;
    aa) aa ;;
    answers) answers ;;
    steady) steady ;;
    gains) gains ;;
    deep_window) measured deep_window benchmarks/overhead/deep.py --repeats "${REPEATS:-3}" ;;
    *) echo "unknown part: $part" >&2 && exit 2 ;;
    esac
done
