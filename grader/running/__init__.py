"""run: launches a kernel bundle's cases on a GPU (cuda.py) or on Triton's interpreter (cpu.py). Judges nothing."""
