"""Change one thing and prove it: knobs, trials behind a write guard, their failures, A/B."""
