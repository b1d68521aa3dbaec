"""What runs INSIDE the trained process: standard library only, Python 3.9 or newer, nothing of Stoker.

It is loaded by path under a private name (`site/sitecustomize.py` does that), so the tool may live in one
environment and the training in another. The rest of Stoker reads what it writes through `wire`.
"""
