def _worker_loop():
    return None
