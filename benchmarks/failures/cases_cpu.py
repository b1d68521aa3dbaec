# ruff: noqa: E501
"""Failures provoked on a CPU: small scripts that fail in a known way. (class, looks like, script)."""

PROGRESS = "for i in range(5): print(f'step {i} loss {1.0 / (i + 1):.3f}', flush=True)\n"
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))\n"
LOADER = """
import os, signal, sys, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        return fetch(i)
if __name__ == "__main__":
    for i, batch in enumerate(DataLoader(Numbers(), batch_size=4, num_workers=2, timeout=TIMEOUT)):
        print("step", i, flush=True)
"""
RANKS = """
import datetime, os, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=6))
    for step in range(3):
        x = torch.ones(4); dist.all_reduce(x)
        if rank == 0: print("step", step, flush=True)
    body(rank)
    dist.all_reduce(torch.ones(4))
    time.sleep(1)
if __name__ == "__main__":
    mp.spawn(work, args=(@PORT@,), nprocs=2)
"""
ENVS = """
import os, signal, time, multiprocessing as mp
def vec_env_worker(pipe, number):
    while True:
        pipe.recv()
        body(number)
        pipe.send(0)
class SubprocVecEnv:
    def __init__(self, n):
        self.pipes, self.processes = [], []
        for i in range(n):
            a, b = mp.Pipe(); p = mp.Process(target=vec_env_worker, args=(b, i), daemon=True); p.start(); b.close()
            self.pipes.append(a); self.processes.append(p)
    def step(self):
        for p in self.pipes: p.send("step")
        return [p.recv() for p in self.pipes]
if __name__ == "__main__":
    envs = SubprocVecEnv(2)
    for i in range(100):
        envs.step()
        print("step", i, flush=True)
"""


def loader(body: str, timeout: int = 0) -> str:
    return LOADER.replace("TIMEOUT", str(timeout)).replace(
        "class Numbers", f"def fetch(i):\n    {body}\nclass Numbers"
    )


def ranks(body: str, port: int) -> str:
    return RANKS.replace("@PORT@", str(port)).replace("def work", f"def body(rank):\n    {body}\ndef work")


def envs(body: str) -> str:
    return ENVS.replace("def vec_env_worker", f"def body(number):\n    {body}\ndef vec_env_worker")


TRAIN = """
import torch
model = torch.nn.Linear(8, 1); opt = torch.optim.SGD(model.parameters(), lr=LR)
for step in range(STEPS):
    opt.zero_grad(); loss = model(torch.randn(32, 8) * SCALE).square().mean(); loss.backward(); opt.step()
    print(f"step {step} loss {loss.item():.6g}", flush=True)
    CHECK
"""


def train(lr: str, steps: int, scale: str, check: str) -> str:
    text = TRAIN.replace("LR", lr).replace("STEPS", str(steps)).replace("SCALE", scale)
    return text.replace("CHECK", check)


# name: (script family, class, looks like another class, code)
CASES: dict[str, tuple[str, str, str, str]] = {
    "alloc_tensor": ("limit", "host_oom", "", LIMIT + "import torch\ntorch.empty(2**33)"),
    "alloc_numpy": ("limit", "host_oom", "", LIMIT + "import numpy as np\nnp.ones(2**33)"),
    "alloc_list": ("memory_error", "host_oom", "", LIMIT + PROGRESS + "x = bytearray(2**33)"),
    "alloc_huge_tensor": ("huge", "host_oom", "gpu_oom", PROGRESS + "import torch\ntorch.empty(2**46)"),
    "alloc_fork": ("fork_limit", "host_oom", "", "import os\nraise OSError(12, os.strerror(12))"),
    "alloc_worker": (
        "loader_memory", "host_oom", "loader_died", LIMIT + loader("return torch.empty(2**32)")),
    "shm_rlimit": (
        "shm_files", "shm", "",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\n"
        + loader("return torch.ones(1000)").replace('print("step", i', 'kept = globals().setdefault("k", []); kept.append(batch); print("step", i')),
    "shm_bus": ("shm_bus", "shm", "", loader("os.kill(os.getpid(), signal.SIGBUS)")),
    "shm_main_bus": ("shm_main", "shm", "", PROGRESS + "import os, signal; os.kill(os.getpid(), signal.SIGBUS)"),
    "shm_text": (
        "shm_text", "shm", "disk_full",
        PROGRESS + "raise RuntimeError('unable to write to file </torch_1234_5678_9>: No space left on device (28)')"),
    "worker_killed": ("loader_kill", "loader_died", "", loader("os.kill(os.getpid(), signal.SIGKILL) if i > 30 else 0; return i")),
    "worker_exits": ("loader_exit", "loader_died", "", loader("os._exit(1) if i > 30 else 0; return i")),
    "worker_segv": ("loader_segv", "loader_died", "", loader("os.kill(os.getpid(), signal.SIGSEGV) if i > 30 else 0; return i")),
    "worker_key": ("loader_key", "user_error", "loader_died", loader("return {}['image']")),
    "worker_shape": ("loader_shape", "user_error", "loader_died", loader("return torch.ones(i % 3 + 1)")),
    "worker_file": ("loader_file", "user_error", "shm", loader("return open('/nowhere/shm/torch_data')")),
    "nan_raise": ("nan", "numeric", "user_error", train("0.1", 9, "1", "assert torch.isfinite(loss * (float('nan') if step > 5 else 1)), 'loss is nan'")),
    "nan_quiet": ("nan_quiet", "numeric", "", train("1e30", 30, "1e5", "pass")),
    "nan_anomaly": ("anomaly", "numeric", "user_error", "import torch\nwith torch.autograd.detect_anomaly():\n    x = torch.zeros(1, requires_grad=True); (torch.sqrt(x) * 0).sum().backward()"),
    "nan_clip": ("clip", "numeric", "", "import torch\nx = torch.ones(1, requires_grad=True); x.grad = torch.tensor([float('inf')])\ntorch.nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)"),
    "nan_dist": ("distribution", "numeric", "user_error", "import torch\ntorch.distributions.Normal(torch.tensor([float('nan')]), 1.0)"),
    "diverges_raise": ("diverge", "numeric", "user_error", train("0.9", 60, "3", "assert loss < 1e9 or not (_ for _ in ()).throw(RuntimeError(f'training diverged: loss {loss.item():.3g}'))")),
    "diverges_quiet": ("diverge_quiet", "numeric", "", train("0.5", 40, "2", "pass")),
    "hang_sleep": ("sleep", "hang", "", PROGRESS + "import time; time.sleep(1000)"),
    "hang_lock": ("lock", "hang", "", PROGRESS + "import threading; l = threading.Lock(); l.acquire(); l.acquire()"),
    "hang_queue": ("queue", "hang", "env_crash", PROGRESS + "import queue; print('waiting for the environment workers'); queue.Queue().get()"),
    "gloo_timeout": ("gloo_late", "nccl_timeout", "", ranks("time.sleep(1000 if rank else 0)", 29611)),
    "gloo_barrier": ("gloo_barrier", "nccl_timeout", "", ranks("time.sleep(1000) if rank else dist.monitored_barrier(timeout=datetime.timedelta(seconds=3))", 29612)),
    "gloo_store": (
        "gloo_store", "nccl_timeout", "user_error",
        "import datetime, torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:29613', rank=0, world_size=2, timeout=datetime.timedelta(seconds=3))"),
    "gloo_peer": ("gloo_peer", "nccl_remote", "", ranks("os._exit(0) if rank else time.sleep(1)", 29614)),
    "gloo_rank_error": ("gloo_error", "user_error", "nccl_remote", ranks("{}['lr'] if rank else None", 29615)),
    "gloo_rank_memory": ("gloo_memory", "host_oom", "nccl_remote", ranks("torch.empty(2**46) if rank else None", 29616)),
    "port": ("port", "port", "user_error", "import socket\na = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen()\nb = socket.socket(); b.bind(a.getsockname())"),
    "port_store": ("port_store", "port", "nccl_system", "import socket, torch.distributed as dist\na = socket.socket(); a.bind(('127.0.0.1', 29617)); a.listen()\ndist.TCPStore('127.0.0.1', 29617, 1, True)"),
    "port_text": ("port_http", "port", "", "from http.server import *\na = HTTPServer(('127.0.0.1', 0), SimpleHTTPRequestHandler)\nimport socket\nb = socket.socket(); b.bind(a.server_address)"),
    "negative_numpy": ("negative_np", "overflow", "user_error", PROGRESS + "import numpy as np\nnp.zeros((40 * 10**8 - 2**32, 3))"),
    "negative_torch": ("negative_torch", "overflow", "user_error", PROGRESS + "import torch\ntorch.zeros(-294967296, 3)"),
    "negative_warp": ("negative_warp", "overflow", "user_error", PROGRESS + "raise ValueError('Array shapes must be non-negative, got (-1342177280,)')"),
    "env_segv": ("env_segv", "env_crash", "user_error", envs("os.kill(os.getpid(), signal.SIGSEGV)")),
    "env_exit": ("env_exit", "env_crash", "", envs("os._exit(3) if number else None")),
    "env_killed": ("env_kill", "env_crash", "", envs("os.kill(os.getpid(), signal.SIGKILL) if number else None")),
    "env_key": ("env_key", "user_error", "env_crash", envs("{}['observation'] if number else None")),
    "disk_full": ("disk", "disk_full", "shm", PROGRESS + "with open('/dev/full', 'w') as f: f.write('x' * 100000)"),
    "disk_save": ("disk_save", "disk_full", "", "import shutil\nopen('a', 'w').write('x' * 10**6)\nshutil.copyfile('a', '/dev/full')"),
    "disk_quota": ("quota", "disk_full", "", PROGRESS + "import os\nraise OSError(122, os.strerror(122), 'ckpt/last.pt')"),
    "user_key": ("key", "user_error", "", PROGRESS + "cfg = {}; cfg['lr']"),
    "user_import": ("import_error", "user_error", "", "import torch_geometric_not_there"),
    "user_attribute": ("attribute", "user_error", "", PROGRESS + "import torch; torch.nn.Linear(2, 2).weights"),
    "user_shape": ("shape", "user_error", "", PROGRESS + "import torch; torch.ones(3, 4) @ torch.ones(3, 4)"),
    "user_path": ("path", "user_error", "", "open('data/train.csv')"),
    "user_script": ("script", "user_error", "", "import os, sys; os.execv(sys.executable, [sys.executable, 'tarin.py'])"),
    "user_flag": ("argparse", "user_error", "", "import argparse\np = argparse.ArgumentParser(); p.add_argument('--lr', type=float)\np.parse_args(['--lr', 'fast'])"),
    "user_syntax": ("syntax", "user_error", "", "exec('for i in range(3) print(i)')"),
    "user_checkpoint": ("checkpoint", "user_error", "", "import torch\ntorch.nn.Linear(2, 2).load_state_dict({'weight': torch.ones(3, 3)})"),
    "user_nccl_line": ("nccl_line", "user_error", "nccl_system", "print('NCCL version 2.27.5+cuda12.9'); " + PROGRESS + "{}['x']"),
    "user_nccl_warning": ("nccl_warning", "user_error", "nccl_system", PROGRESS + "print('Warning: WARNING: destroy_process_group() was not called before program exit (function operator() ProcessGroupNCCL.cpp:1496)')\nint('a')"),
    "user_memory_word": ("memory_word", "user_error", "gpu_oom", PROGRESS + "raise ValueError('the replay memory must be larger than a batch')"),
    "user_survived_oom": ("survived", "user_error", "gpu_oom", "print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. Batch halved, going on')\n" + PROGRESS + "{}['x']"),
    "user_advice": ("advice", "user_error", "gpu_oom", "print('tip: if you see CUDA out of memory, try a smaller --batch')\nraise TypeError('forward() missing 1 argument')"),
    "user_no_cuda": ("no_cuda", "user_error", "nccl_system", "import torch\ntorch.ones(1, device='cuda:7')"),
    "interrupt": ("interrupt", "interrupted", "user_error", PROGRESS + "raise KeyboardInterrupt"),
    "interrupt_signal": ("sigint", "interrupted", "", PROGRESS + "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(5)"),
    "interrupt_in_worker": ("sigint_loader", "interrupted", "loader_died", loader("import time; time.sleep(0.2); return i").replace('print("step", i, flush=True)', 'print("step", i, flush=True); os.kill(os.getpid(), signal.SIGINT)')),
    "preempted": ("slurm", "preempted", "crash", PROGRESS + "print('slurmstepd: error: *** STEP 123.0 ON n1 CANCELLED AT 2026-11-16T00:00:00 DUE TO TIME LIMIT ***', flush=True)\nimport os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
    "preempted_term": ("sigterm", "preempted", "crash", PROGRESS + "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"),
    "preempted_hup": ("sighup", "preempted", "", PROGRESS + "import os, signal; os.kill(os.getpid(), signal.SIGHUP)"),
    "crash_segv": ("segv", "crash", "", PROGRESS + "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    "crash_abort": ("abort", "crash", "", PROGRESS + "import os; os.abort()"),
    "crash_code": ("code", "crash", "", PROGRESS + "import os; os._exit(7)"),
}  # fmt: skip
