"""Change one thing and prove it: knobs, trials of a command, and comparisons of two settings."""
