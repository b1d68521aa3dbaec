"""Two trainings with the stub torch: `… METHOD STEPS`; METHOD: spawn, fork, forkserver, os.fork."""

import multiprocessing
import os
import sys


def work(steps, rank):
    from stub_training import train

    train(steps, rank, 2)


def with_multiprocessing(method, steps):
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=work, args=(steps, rank)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def with_os_fork(steps):
    children = []
    for rank in range(2):
        child = os.fork()
        if not child:
            work(steps, rank)
            sys.exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    import stub_training

    stub_training.train(3)  # the parent trains too, before it forks
    method, steps = sys.argv[1], int(sys.argv[2])
    if method == "os.fork":
        with_os_fork(steps)
    else:
        with_multiprocessing(method, steps)
