@triton.jit
def load_tile(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """[len(rows), len(columns)]; element (i, j) is at rows[i] * stride_row + columns[j] * stride_column, or 0 beyond an end."""
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    return tl.load(ptr + rows[:, None] * stride_row + columns[None, :] * stride_column, mask=inside, other=0)
