_group = []


def is_available():
    return True


def is_initialized():
    return bool(_group)


def init_process_group(rank, world_size):
    _group[:] = [rank, world_size]


def destroy_process_group():
    _group.clear()


def get_rank():
    return _group[0]


def get_world_size():
    return _group[1]
