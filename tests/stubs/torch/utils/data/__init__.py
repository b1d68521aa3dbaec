from .dataloader import DataLoader

__all__ = ["DataLoader", "get_worker_info"]


def get_worker_info():
    return None
