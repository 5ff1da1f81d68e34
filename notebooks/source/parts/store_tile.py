@triton.jit
def store_tile(y_ptr, y, rows, columns, M, N, stride_ym, stride_yn):
    """Stores y, fp16 [len(rows), len(columns)], where rows are below M and columns below N."""
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn, y, mask=inside)
