"""run: launches a kernel bundle's cases on a GPU (cuda.py) or on Triton's interpreter (interpreter.py). Judges nothing."""
