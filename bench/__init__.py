"""The benchmark: solutions, ladder steps and peers, each raced against cuBLAS fp16 by the clock's protocol.

A lab's bench.py says what is raced and which peers there are; race and running how, record what is kept, figures and
tables what is drawn from it. Only kernels of this repository and installed libraries run here, never a student's.
"""
