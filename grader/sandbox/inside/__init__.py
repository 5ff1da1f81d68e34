"""What runs inside the sandbox, beside the student's code. Standard library, Triton and NumPy only.

These files are mounted alone: nothing else of the grader can be seen from inside.
"""
