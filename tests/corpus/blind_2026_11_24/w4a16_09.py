import triton
import triton.language as tl

FP16_1024 = tl.constexpr(0x6400)
NIBBLES = tl.constexpr(8)

@triton.jit
def nibble_to_fp16(nibble):
    # two's complement to offset binary: flipping bit 3 adds 8 modulo 16
    bits = (nibble & 0xF) ^ 0x8 | FP16_1024
    return bits.to(tl.uint16).to(tl.float16, bitcast=True) - 1024.0


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "WORDS": 16}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "WORDS": 16}, num_warps=4, num_stages=3),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W4A16_MM(
    x_ptr, qweight_ptr, scales_ptr, y_ptr, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WORDS: tl.constexpr,
):
    """Every word is loaded once. Nibble j of the words meets columns j, j + 8, j + 16, ... of X."""
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_m = offs_m[:, None] < M
    mask_n = offs_n[None, :] < N

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for w0 in range(0, K // NIBBLES, WORDS):
        offs_w = w0 + tl.arange(0, WORDS)
        mask_w = offs_w < K // NIBBLES
        word = tl.load(
            qweight_ptr + offs_w[:, None] * stride_wk + offs_n[None, :] * stride_wn,
            mask=mask_w[:, None] & mask_n, other=0,
        )
        for j in tl.static_range(NIBBLES):
            x = tl.load(
                x_ptr + offs_m[:, None] * stride_xm + (offs_w * NIBBLES + j)[None, :] * stride_xk,
                mask=mask_m & mask_w[None, :], other=0.0,
            )
            acc = tl.dot(x, nibble_to_fp16(word >> (4 * j)), acc)

    scale = tl.load(scales_ptr + offs_n, mask=offs_n < N, other=0.0)
    acc *= scale[None, :]
    tl.store(
        y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :] * stride_yn,
        acc.to(tl.float16), mask=mask_m & mask_n,
    )
