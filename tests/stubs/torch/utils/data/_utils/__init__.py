from . import fetch, worker

__all__ = ["fetch", "worker"]
