"""A signal may come while our own code runs: what its handler raises there is meant for the script."""


def pass_on(error):
    """Raise it again if a signal handler raised it: those are given the very frame they interrupted. Called
    wherever an exception would be kept from the script."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        for given in trace.tb_frame.f_locals.values():
            if given is interrupted or type(given) is tuple and any(one is interrupted for one in given):
                raise error
