"""W4A16 without tensor cores: products of a small tile, reduced with tl.sum. Meant for a few tokens."""
import triton
import triton.language as tl


def W4A16_MM_grid(M, N, K, meta):
    rows = meta["ROWS"]
    return -(-M // rows), triton.cdiv(N, meta["COLS"])


@triton.autotune(
    configs=[
        triton.Config({"ROWS": 8, "COLS": 32, "DEPTH": 64}, num_warps=8),
        triton.Config({"ROWS": 4, "COLS": 64, "DEPTH": 64}, num_warps=8),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):
    tl.static_assert(DEPTH % 8 == 0, "a tile holds whole words")
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    word_row = tl.arange(0, DEPTH // 8)
    bit = 4 * tl.arange(0, 8)

    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for k in range(0, K, DEPTH):
        depth = k + tl.arange(0, DEPTH)
        x = tl.load(
            x_ptr + row[:, None] * stride_xm + depth[None, :] * stride_xk,
            mask=(row[:, None] < M) & (depth[None, :] < K), other=0.0,
        ).to(tl.float32)
        words = tl.load(
            qweight_ptr + (k // 8 + word_row)[:, None] * stride_wk + col[None, :] * stride_wn,
            mask=(k // 8 + word_row < K // 8)[:, None] & (col < N)[None, :], other=0,
        )
        # eight nibbles of each word
        nibbles = (words[:, :, None] >> bit[None, None, :]) & 0xF
        q = tl.reshape(nibbles - 2 * (nibbles & 0x8), (DEPTH, COLS)).to(tl.float32)
        total += tl.sum(x[:, :, None] * q[None, :, :], axis=1)

    scale = tl.load(scales_ptr + col, mask=col < N, other=0.0).to(tl.float32)
    tl.store(
        y_ptr + row[:, None] * stride_ym + col[None, :] * stride_yn,
        (total * scale[None, :]).to(tl.float16),
        mask=(row[:, None] < M) & (col[None, :] < N),
    )
