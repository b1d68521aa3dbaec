def range_push(msg):
    return 0


def range_pop():
    return 0
