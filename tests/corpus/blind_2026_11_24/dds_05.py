import triton
import triton.language as tl

CONFIGS = []
for bm in (16, 32, 128):
    CONFIGS.append(triton.Config({"BLOCK_M": bm}, num_warps=4 if bm > 16 else 2, num_stages=3))


@triton.autotune(configs=CONFIGS, key=["M"])
@triton.jit
def DDS_MM(x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr, M, N, K,
           stride_xm, stride_xk, stride_ym, stride_yn,
           BLOCK: tl.constexpr, BLOCK_M: tl.constexpr):
    """Prefetch the next block before multiplying with this one."""
    pid_m, row = tl.program_id(0), tl.program_id(1)
    lo = tl.load(crow_indices_ptr + row)
    hi = tl.load(crow_indices_ptr + row + 1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_c = tl.arange(0, BLOCK)
    in_m = (offs_m < M)[:, None]
    inner = offs_c[:, None] + offs_c[None, :] * BLOCK  # [c, r]
    acc = tl.zeros((BLOCK_M, BLOCK), tl.float32)

    any_block = lo < hi
    col = tl.load(col_indices_ptr + lo, mask=any_block, other=0)
    x = tl.load(x_ptr + offs_m[:, None] * stride_xm + (col * BLOCK + offs_c)[None, :] * stride_xk,
                mask=in_m & any_block, other=0.0)
    w = tl.load(values_ptr + lo * BLOCK * BLOCK + inner, mask=any_block, other=0.0)
    for b in range(lo, hi):
        more = b + 1 < hi
        col = tl.load(col_indices_ptr + b + 1, mask=more, other=0)
        x_next = tl.load(x_ptr + offs_m[:, None] * stride_xm + (col * BLOCK + offs_c)[None, :] * stride_xk,
                         mask=in_m & more, other=0.0)
        w_next = tl.load(values_ptr + b * BLOCK * BLOCK + inner, mask=more, other=0.0)
        acc = tl.dot(x, w, acc)
        x, w = x_next, w_next
    offs_n = row * BLOCK + offs_c
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn, acc.to(tl.float16), mask=in_m)
