"""The benchmark: solutions, ladder steps and peers, each raced against cuBLAS fp16 by the clock's protocol.

bench/labs/ says what each lab races and against which peers; race and running how; figures and tables what is drawn from
the record. Only kernels of this repository and installed libraries run here, never a student's.
"""
