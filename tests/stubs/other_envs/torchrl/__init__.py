"""As little of torchrl as an environment of its kind needs."""
