"""Change one thing and know: trials of a user's command behind a write guard, their failures, knobs, A/B."""
