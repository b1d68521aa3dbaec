"""As little of PettingZoo as environments of its kinds need."""
