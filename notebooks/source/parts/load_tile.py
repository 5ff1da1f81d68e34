@triton.jit
def load_tile(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """The tile [len(rows), len(columns)] of a matrix, with zeros beyond the end of either axis."""
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    at = rows[:, None] * stride_row + columns[None, :] * stride_column
    return tl.load(ptr + at, mask=inside, other=0)
