"""The GPUs seen from outside: one seam (`seam.Gpus`), and what is behind it."""
