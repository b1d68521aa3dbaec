"""Change one thing and prove it: knobs, trials, A/B."""
