# ruff: noqa: E501
"""Failures provoked on a GPU. The same form as `cases_cpu.py`."""

TWO = """
import datetime, os, time, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("BACKEND", rank=rank, world_size=WORLD, timeout=datetime.timedelta(seconds=8))
    torch.cuda.set_device(0)
    for step in range(3):
        x = torch.ones(4, device="cuda" if "BACKEND" == "nccl" else "cpu"); dist.all_reduce(x)
        if rank == 0: print("step", step, flush=True)
    BODY
    dist.all_reduce(torch.ones(4)); torch.cuda.synchronize()
if __name__ == "__main__":
    mp.spawn(work, args=(@PORT@,), nprocs=WORLD)
"""
HEAD = "import torch\nfor i in range(5): print(f'step {i} loss {1.0 / (i + 1):.3f}', flush=True)\n"


def two(body: str, port: int, backend: str = "gloo", world: int = 2) -> str:
    text = TWO.replace("BODY", body).replace("@PORT@", str(port)).replace("BACKEND", backend)
    return text.replace("WORLD", str(world))


CASES: dict[str, tuple[str, str, str, str]] = {
    "gpu_alloc": ("gpu_alloc", "gpu_oom", "", HEAD + "torch.empty(2**40, device='cuda')"),
    "gpu_fill": ("gpu_fill", "gpu_oom", "", HEAD + "kept = []\nwhile True: kept.append(torch.empty(2**30, device='cuda'))"),
    "gpu_backward": ("gpu_backward", "gpu_oom", "", HEAD + "x = torch.randn(2**17, 4096, device='cuda', requires_grad=True)\ny = x\nfor _ in range(400): y = torch.nn.functional.gelu(y)\ny.sum().backward()"),
    "gpu_one_rank": ("gpu_one_rank", "gpu_oom", "nccl_remote", two("torch.empty(2**40, device='cuda') if rank else time.sleep(1)", 29621)),
    "gpu_one_rank_slow": ("gpu_one_rank_slow", "gpu_oom", "hang", two("torch.empty(2**40, device='cuda') if rank else time.sleep(20)", 29622)),
    "gpu_limit": ("gpu_limit", "gpu_oom", "", "import torch\ntorch.cuda.set_per_process_memory_fraction(0.01)\n" + HEAD + "torch.empty(2**32, device='cuda')"),
    "gpu_raw": ("gpu_raw", "gpu_oom", "", HEAD + "import ctypes\nkept = []\nfree, _ = torch.cuda.mem_get_info()\nhold = torch.empty(free - 2**28, dtype=torch.uint8, device='cuda')\na = torch.randn(4096, 4096, device='cuda')\nfor _ in range(99): kept.append(a @ a)"),
    "gpu_assert": ("gpu_assert", "user_error", "gpu_hw", HEAD + "torch.arange(3, device='cuda')[torch.tensor([9], device='cuda')].cpu()"),
    "gpu_ordinal": ("gpu_ordinal", "user_error", "gpu_hw", HEAD + "torch.ones(1, device='cuda:63')"),
    "gpu_devices": ("gpu_devices", "user_error", "gpu_oom", HEAD + "torch.ones(2, device='cuda') + torch.ones(2)\ntorch.ones(2, device='cuda') @ torch.ones(2)"),
    "gpu_host_memory": ("gpu_pinned", "host_oom", "gpu_oom", HEAD + "torch.ones(2**46).cuda()"),
    "nccl_same_gpu": ("nccl_same_gpu", "nccl_system", "", two("pass", 29623, "nccl")),
    "nccl_survives": ("nccl_line_gpu", "user_error", "nccl_system", two("dist.barrier(); {}['lr']", 29624, "nccl", 1)),
    "gpu_nan": ("gpu_nan", "numeric", "user_error", HEAD + "x = torch.ones(4, device='cuda') / 0\nassert torch.isfinite(x - x).all(), 'loss is nan'"),
    "gpu_half_overflow": ("gpu_half", "numeric", "", "import torch\nx = torch.full((4,), 100.0, device='cuda', dtype=torch.half)\nfor step in range(9):\n    x = x * x\n    print(f'step {step} loss {x.mean().item()}', flush=True)\nraise SystemExit(3)"),
    "gpu_hang": ("gpu_hang", "hang", "", HEAD + "torch.cuda._sleep(10**14); torch.cuda.synchronize()"),
}  # fmt: skip
