"""The format of what a trained process writes about itself; `stoker.store` reads it with these names.

One process writes its own files in `inside/`; only workers, which come and go, share one, line by line:

    <pid>-<n>.jsonl          a header, then rows, each with its kind in `k`
    <pid>-<n>.first.tsv      every tick of the first minute; its phases only where they were told apart
    <pid>-<n>.tail0.tsv      the latest ticks, in three files of five minutes that take turns: at least the
    <pid>-<n>.tail1.tsv      last ten minutes
    <pid>-<n>.tail2.tsv
    <pid>-<n>.slow.tsv       every tick slower than five times the median
    <pid>-<n>.deep.tsv       a deep window: what the GPU did for a second, and the host beside it
    workers-<pid>.jsonl      DataLoader workers of that process, one line each now and then and at their end

Sums are cumulative since the process was first seen: a row lost to a full disk costs resolution, not truth.
Times are `time.perf_counter()` seconds, one clock for all processes of a machine.
"""

SCHEMA = "stoker.inside/1"
WORKER_SCHEMA = "stoker.worker/1"

# Where the training thread is, one place at a time. `other` is the rest: the user's own Python.
PHASES = (
    "other",
    "data",
    "env",
    "infer",
    "h2d",
    "forward",
    "loss",
    "backward",
    "optim",
    "sync",
    "save",
    "gc",
    "compile",
)
OTHER, DATA, ENV, INFER, H2D, FORWARD, LOSS, BACKWARD, OPTIM, SYNC, SAVE, GC, COMPILE = range(len(PHASES))
THIN = len(PHASES)  # not told apart (`thinning`); never written: it is given to the phases before

# What the process is about. `startup` lasts to the end of the first tick, `after` begins at the last.
STARTUP, TRAIN, EVAL, AFTER = "startup", "train", "eval", "after"
DEEP = "deep"  # a deep window, from its preparation until the training runs as before

# Kinds of rows in the .jsonl file.
HEADER, SECOND, MARK, END = "header", "second", "mark", "end"
OPTIMIZER, LOADER, WORKER, SEQUENCE = "optimizer", "loader", "worker", "sequence"
PLACE, LINES, SYNCS, RANGES = "place", "lines", "syncs", "ranges"
HOOK, FAILURE, RANK, LOST = "hook", "failure", "rank", "lost"
COUNTS, DEVICE, DEEP_WINDOW, LEAD = "counts", "device", "deep", "lead"
KNOBS, THREADS = "knobs", "threads"

TICK_COLUMNS = ("t_us", "dur_us", "optimizer", *(name + "_us" for name in PHASES))

# A deep window. Times are nanoseconds from the `t` of its row; -1 is unknown.
DEEP_COLUMNS = (
    "kind",
    "start_ns",
    "dur_ns",
    "device",
    "stream",  # of a wait: the thread
    "name",  # of a kernel, copy, fill or wait: its place in `names`; of the host: its phase
    "bytes",
    "sm_milli",  # blocks per SM, in thousandths
    "occupancy_pct",
)
KERNEL, COPY, FILL, HOST, TICK, WAIT = range(6)
DEEP_EVENTS_MAX = 200_000
DEEP_NAMES_MAX = 5_000
DEEP_NAME_MAX = 300

FIRST_S = 60.0
TAILS = ("tail0", "tail1", "tail2")
TAIL_S = 300.0  # each
SLOW_FACTOR = 5.0
SLOW_ROWS_MAX = 100_000
TICKS_WAITING_MAX = 20_000  # held in memory between two writes
SEQUENCE_MAX = 20_000
MARKS_MAX = 10_000
OPTIMIZERS_MAX = 64
PLACES_MAX = 2_000
STACKS_MAX = 1_000  # of these with the lines that led there
STACK_MAX = 16
FILES_MAX = 5_000
PROCESSES_MAX = 512
DEVICES_MAX = 64
SHARED_BYTES_MAX = 20_000_000
