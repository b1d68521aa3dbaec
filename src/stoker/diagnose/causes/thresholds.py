"""Every number a cause is judged by, with its source and date. `own` numbers were chosen by us: they are
checked, not proven, by `benchmarks/pathologies`."""

from __future__ import annotations

NOTE_FRAC, WARNING_FRAC, CRITICAL_FRAC = 0.05, 0.10, 0.20
"""Recoverable share of the window. TensorFlow's input-pipeline analyser calls 5 % and 20 % moderately and
highly input-bound; TraceML 0.5.0 warns at 10 % and 20 % (both read in source, 2026-11)."""

SELDOM_ENOUGH_FRAC = 0.02
"""Of the time, for what is to be done less often: nobody would notice. Own, 2026-11."""

HEALTHY_WORK_PCT = 85.0
HEALTHY_CEILING = 1.05
"""Real work of the window, and the largest gain not worth a change: the bar of this project (2026-11)."""
HEALTHY_AT_MOST_PCT = 90.0
"""The same of a deep window's estimate, which is an upper bound: 5 points above GPM's figure in the median of
216 answers on an H200; of 36 with 90 % and more 28 had 85 % by GPM (2026-11-16 to 19). Own."""
ASKED_PCT = 15.0
"""Of the thread's time, the model without gradients where no environment takes its answer: from here on a
healthy verdict says that it may be an evaluation. Own, 2026-11."""

IN_MOST_TICKS_FRAC = 0.9
"""A model that is asked in as many ticks is a part of the step (a target network, a teacher), no evaluation.
Own, 2026-11."""
READY_FRAC = 0.9
"""Of the reads: a batch was waiting, so it is not for want of batches that the training waits. Own,
2026-11."""
UNEXPLAINED_PCT = 10.0
"""Lost time that no cause explains and that is still too much to call a run healthy: own, 2026-11; the
warning line of TraceML."""

MIN_TICKS = 20
MIN_WINDOW_S = 2.0
"""TraceML 0.5.0 wants 20 steps for a critical finding; two seconds have two rows at
least (own). 2026-11."""

COMPILES_ON_PCT, COMPILED_PCT = 1.0, 5.0
"""Of the last third of the window: with less, torch.compile has finished. Of the whole window: with more of
a compiling that has finished, the figures are not those of a usual step. Own, 2026-11."""

# Input
SUPPLY_MARGIN = 1.10
"""Workers that can deliver a tenth more than the training takes are not too few: own, 2026-11."""
HANDED_OVER_MS = 1.5
"""One batch fetched in less: from a worker it would come no sooner. Batches of 0.4 to 0.8 ms made two
trainings 20 to 31 % slower with workers (2 cores, 2026-11); own."""
LESS_FRAC = 0.95
"""Of the gain that free loading would be: where the cores allow less than that of it, it is said. Own,
2026-11."""
QUEUE_EMPTY_FRAC = 0.5
"""Of the reads from a loader's queue: own, 2026-11."""
COLLATE_FRAC = 0.5
"""Of the fetching time: then more workers only copy the mistake. Own, 2026-11."""
WORKER_CPU_FRAC = 0.4
"""On a free core; below, a worker mostly waits. Own, 2026-11."""
CORES_BUSY_PCT = 90.0
"""SageMaker Debugger's CPUBottleneck: CPU at 90 % or more (smdebug_rulesconfig 1.0.1, read 2026-11)."""
WORKERS_CORES_FRAC = 0.75
"""Of the allowed cores, in use by the loader's workers alone: the training needs some too. Own, 2026-11."""
EDGE_FRAC = 0.5
"""Of the waiting for data that falls on the first tick of an epoch: own, 2026-11."""
EDGE_LEAN = 3.0
"""That share, against the share of ticks that are first: in an even loader it is 1. Own, 2026-11."""
EDGE_NEARLY_ALL = 0.9
"""Enough where epochs are so short that every second or third tick is a first one. Own, 2026-11."""
OPENING_FRAC = 0.3
"""Of the waiting for data, the making of iterators alone, which starts the workers: the first batch is waited
for besides. One training whose workers were started 60 times had 0.46 (2026-11-19). Own."""
EDGES_MIN = 3
"""Epochs, or fewer tell nothing of a habit. Own, 2026-11."""

# Host
LINE_PCT = 5.0
"""Of the window, for one line or one function: own, as NOTE_FRAC."""
LINE_SURE = 1.64
"""Standard deviations (95 %, one-sided) below the share that looks found: a line is told only if even so it
has LINE_PCT. Three looks of eight made a line of 7 % of it that was as good as any other. Own, 2026-11."""
COMPUTES_FRAC, COMPUTES_LOOKS = 0.04, 2
"""Looks at a jump or the beginning of a function, of those into a line: from here on Python computes there.
Of loops of plain Python 5 to 99 % (3.10 to 3.13; the more calls in it, the fewer; 3.9: 0 to 13), of torch and
NumPy called from one 0 of 1,700 (CPU, 2026-11-18). Own."""
INSIDE_FRAC, INSIDE_LOOKS = 0.25, 3
"""The same in a forward pass, where layers are called in the same lines. In 128 recordings of trainings
without such a fault no function of the user's had more than one (2026-11-20); one with it 4 of 12. Own."""
LAUNCHES_FRAC, LAUNCHES_LOOKS = 0.8, 10
"""Of what the GPU idles in the user's own code, waiting for launches: with as many looks into a line, none of
which found Python at work, it launches and does not compute. Own, 2026-11-18."""
GC_LINE_FRAC, GC_ONE_LINE_FRAC = 0.5, 0.9
"""Of the looks into collections: a line in which so many begin is named; one that has nearly all of them may
well ask for them itself. Own, 2026-11."""
NEARLY_ALL_FRAC = 0.8
"""Of what is under the outermost call of a piece of code: the innermost that has so much of it is named. Own,
2026-11."""
LINES_APART = 2
"""Lines of a function no further apart are told as one: a loop and its body. Own, 2026-11."""

WAITING_LINE_FRAC = 0.25
"""Waiting for the GPU in a line, of what looks found in it outside of that: from here on it is no hot line.
Own, 2026-11."""
EVALUATED_MIN = 2
"""Looks into calls without gradients, one a second, that found the model that is trained in eval mode. Own,
2026-11."""
ACTS_FRAC = 0.1
"""Of the looks that found it in eval mode: as many have to find it acting elsewhere, or it may act there,
too. Own, 2026-11."""
MODEL_FRAC = 0.5
"""Of an evaluation's time: with less of the model in it, it may be a rollout in an environment nobody knows.
Own, 2026-11."""
IN_STEP_FRAC = 0.5
"""Of the ticks; what is asked in so many is part of the step, no evaluation. Own, 2026-11."""
SELDOM_FRAC = 0.2
"""Of the ticks; a line of the loop itself has to be asked as seldom to be an evaluation. Own, 2026-11."""
ALONE_FRAC = 0.9
"""Of the looks into calls without gradients: nothing else is asked so. Own, 2026-11."""

HELD_FRAC = 0.10
"""Of the window, off a core in the model's calls: a training alone with its threads had 0.001 to 0.013, one
beside a thread of pure Python 0.36 (CPU, 2026-11-18). Own."""
LOOKS_FIT_FRAC = 0.9
"""Of the train stage is in the window: then looks, which are not dated, may be set against it. Own,
2026-11."""
OWN_LOOKS = 20
"""Into all phases: from here on they tell in how much of `other` anybody is found. Own, 2026-11."""
RESTS_FRAC = 0.5
"""Of the time in the user's own code, off a core: then it waits there. Own, 2026-11."""
OTHERS_CORES = 0.10
"""Used by other threads that run Python: with less, they cannot hold the interpreter for so long. Own,
2026-11."""

# RL
ONE_ROW_FRAC = 0.5
"""Of the looks into calls without gradients: from here on it is asked row by row; only that part is counted.
Own, 2026-11."""
AROUND_MAX = 2.5
"""Times the model's calls: what stands beside them and takes longer is no part of asking. Own, 2026-11."""
ENVS_ONE = 1.5
"""Env steps per env call below which environments are stepped one by one: own, 2026-11."""
QUICK_STEP_MS = 0.3
"""One step of one environment: with 0.005 ms processes made it 6 times slower; with 0.15 ms they won 5 % in
steps a second and the run took twice as long with their start (2 cores, 2026-11-19). Own."""
MOST_OF_ENV_FRAC = 0.5
"""Of the time in environments, in one line: own, 2026-11."""
ELSEWHERE_CORES = 0.5
"""Cores that processes beside the training use, from which on environments may be stepped there: own."""
WAITS_FRAC = 0.5
"""Of the looks at a line, at a pipe, a queue or a lock of multiprocessing: then it waits. Own, 2026-11."""
WAITED_FOR_CORES = 0.1
"""Of all of the window: with less it is waited for something else than their work. Own, 2026-11."""

# GPU
SYNCS_PER_TICK = 0.5
"""Half of the ticks read something back: own; 1 and more is usual in the wild (2026-11)."""
LITTLE_WORK_FRAC = 0.5
"""Real work of busy. NVIDIA calls SM activity below 0.5 "likely ineffective" (DCGM's guide, 2026-11)."""
BUSY_FOR_BATCH_PCT = 50.0
"""With less, it is idle time that is to be mended first. Own, 2026-11."""
MEMORY_FREE_FRAC = 0.4
"""SageMaker Debugger's BatchSize asks for less than 70 % of memory; we ask for less than 40 % (own): to
double a batch must fit with room. 2026-11."""
WEIGHTS_FRAC = 0.25
"""Of kernel time, in kernels over all weights: one training of 192 rows on an H200 had 37 %, a hundred others
at most 12 % (2026-11-19, `diagnose/deep.py`). Own."""
LAUNCH_US = 5.0
"""A launch takes 5 to 20 us (HTA's documentation, read 2026-11). Of trainings on an H200 in which the model
waits for launches, those of many tiny kernels had a median of 0.9 to 1.4 us, one whose batch was too small
12.8 (2026-11-19). Own."""
MOST_IDLE_FRAC = 0.5
"""Of the GPU's idle time, the model's launches with what is not explained: with less, a larger batch is not
what it waits for. Own, 2026-11."""
TENSOR_OFF_PCT = 1.0
TENSOR_WORK_PCT = 50.0
DRAM_LOW_PCT = 50.0
"""Tensor pipes at about nothing while half of the multiprocessors work and memory is not the limit: expected
from how the counters are defined (DCGM's guide, 2026-11). On an H200 `tensor_off` is told so (2026-11-16);
products in FP32 beside others in bf16 are not, for which FP32_FRAC and PLAIN_FRAC are."""

TENSOR_FEW_PCT = 25.0
"""With fewer, what the multiprocessors work on is worth a look: healthy trainings on an H200 had 21 to 75 %,
those with a part in plain FP32 or in chains of small operations 12 and 20 % (2026-11-16)."""
TENSOR_RESTS_PCT = 5.0
"""With more, it is not memory alone that is waited for. Own, 2026-11."""
DRAM_BOUND_PCT = 60.0
"""Memory traffic that leaves little to do: copies within the card read 86 % on an H200, a large bf16 matrix
product 14 % (measured 2026-11); KempnerPulse says memory-bound from 50 % on (read 2026-11)."""
PLAIN_FRAC = 0.10
CHAIN_FRAC = 0.15
"""Of kernel time, by the names of kernels in a deep window: plain FP32 products, and long chains of element
by element operations (`diagnose/chains.py` has the measured shares). Of 120 trainings on an H200 those with a
part in plain FP32 had 23 to 97 % of the first, of the others none that worked half of the time above 3 %.
Own, 2026-11."""
TENSOR_CORES_FASTER = 16.0
"""Times as many matrix products a second as plain FP32, at the most: bf16 on an A100, 312 against 19.5
TFLOP/s (NVIDIA's data sheet, 2020; an H200 has 989 against 67): so much of their time is left."""
FP32_FRAC = 0.2
"""FP32 outside of the tensor cores, of busy, as counted: two trainings with a part in plain FP32 had 0.28 and
0.33, 30 others at most 0.12 (H200, 2026-11-16). Own."""
BROAD_FRAC = 0.8
"""Real work of busy, from which on kernels fill the card: own, 2026-11."""
HIDDEN_WAIT_PCT, HIDDEN_LINE_FRAC = 2.0, 0.5
"""Waits inside of torch, of the window: with less they are not put to a line. And as much of that the line
has to have by looks. Own, 2026-11."""
READS_STORM = 4.0
READS_FRAC = 0.05
"""Reads a tick, and their part of the thread's time, from which on the launches between them are small
because of the reads. (The checks of torch.distributions are four reads in a tick of SAC, and 2 % of it.) Own,
2026-11."""
FREES_PER_TICK = 0.25
RETRIES_PER_TICK = 0.01
"""Blocks given back to the driver, and times the allocator emptied its cache to find room: none in a steady
training (torch's caching allocator keeps what it has). Own, 2026-11."""
LEAK_FULL_S, LEAK_SOON_S = 24 * 3600.0, 3600.0
"""Until the card is full at this pace: a warning, and a serious one. Own, 2026-11."""
CPU_TRAINED_FRAC = 0.001
"""Of the trained numbers, on the CPU while others are on a GPU; less is a scalar or two. Own, 2026-11."""

# Machine
THROTTLED_FRAC = 0.2
"""Of the looks. Own, 2026-11."""
POWER_LOWERED_FRAC = 0.97
"""Of the card's default power limit: one below it was set by somebody. Own, 2026-11. At its default limit an
H200 lowers its clock to 81-93 % of the highest as soon as its tensor cores have enough to do (13 trainings
with nothing to mend, 2026-11-16): that is how the card is meant to work, and no cause."""
CLOCK_LOW_FRAC = 0.9
"""Of the highest clock, while throttled; gpuprof 0.7.1 warns at 15 % less (read 2026-11)."""
CORE_WAIT_FRAC = 0.10
"""Of the window, ready to run and without a core. Own, 2026-11: as WARNING_FRAC, since a little of it is
usual on any machine that has other things to do."""
CROWD_FRAC = 0.4
"""Of the allowed cores, on which the loader's workers compute: then they are in the training thread's way.
Own, 2026-11."""
QUOTA_PART = 0.5
"""Of the waiting for a core, held back by a CPU quota: then it is that. Own, 2026-11."""
OWN_CORES_FRAC = 0.75
"""Of the allowed cores, in use by the run itself: then it is in its own way. Own, 2026-11."""
FREE_CORES_PCT = 40.0
"""Of the allowed cores' time in use: with less there is a free core, and a thread that waits for one may not
use it. Own, 2026-11."""
STRAGGLER_FRAC = 0.10
STRAGGLER_COVERS = 0.8
"""TraceML 0.5.0: a rank is late by 10 % of a step; what it does meanwhile is named where it covers 80 %."""
LATE_LINE_FRAC = 0.5
"""Of what a rank is late by, in one line that takes it longer than it takes the others. Own, 2026-11."""

# Over time
CHANGE_FRAC = 0.05
"""Of the mean tick: a phase, or the whole tick, that takes so much more or less is a change: as NOTE_FRAC."""
CHANGE_OWN_FRAC = 0.6
"""Of the change of a tick, in one phase: then it is named; else all became slower alike. Own, 2026-11."""
CHANGE_BEYOND_FRAC = 0.15
"""And so much of it beyond the phase's own part of the tick: a phase that is most of the tick has most of any
change. Own, 2026-11."""

# Folk remedies
FOLK_RATIO_OFF = 0.02
"""Updates per env step this near a whole number are N updates for N steps. Own, 2026-11; from a trainer whose
`--update_interval N` made N updates after N steps: 40.6, 39.2, 40.3, 38.8 env steps/s at N = 1, 5, 10, 20."""
FOLK_SMALL_PCT = 1.0
"""Of the window: what costs less is not worth a knob. Own, 2026-11; a fifth of NOTE_FRAC."""
FOLK_NOTHING_PCT = 10.0
"""Of the window, the model's arithmetic: twice as fast it gives HEALTHY_CEILING. Own, 2026-11."""
FOLK_ENV_PCT = 10.0
"""Of the window: the environments are waited for. Own, as WARNING_FRAC."""
FOLK_MOST_FRAC = 0.5
"""Of the window, lost to what a larger batch does not change: with less, the rest may well gain by it. Own,
2026-11."""
FOLK_FALLS, FOLK_FALLS_FRAC = 5, 0.25
"""Looks at which torch held less memory than at the one before: it never gives any back by itself unless it
runs out (torch's notes on its caching allocator, read 2026-11). The counts are our own."""
