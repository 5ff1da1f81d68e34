import triton
import triton.language as tl

INT8_MAX = tl.constexpr(127)


def roundup(x, y):
    return (x + y - 1) // y


@triton.autotune(configs=[triton.Config({"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": g}, num_stages=2, num_warps=4) for g in (1, 8)], key=["M", "N", "K"])
@triton.jit
def W8A8_MM(x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr, M, N, K,
            stride_xm, stride_xk, stride_wk, stride_wn, stride_ym, stride_yn,
            BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = x_ptr + (offs_am[:, None] * stride_xm + offs_k[None, :] * stride_xk)
    b_ptrs = qweight_ptr + (offs_k[:, None] * stride_wk + offs_bn[None, :] * stride_wn)
    a_scale = tl.load(input_scale_ptr + offs_am)
    b_scale = tl.load(weight_scale_ptr + offs_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.int32)
    for k in range(0, K // BLOCK_SIZE_K):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0)
        a = tl.div_rn(a.to(tl.float32), tl.broadcast_to(a_scale[:, None], [BLOCK_SIZE_M, BLOCK_SIZE_K]))
        a = tl.where(a >= 0, tl.floor(tl.abs(a) + 0.5), -tl.floor(tl.abs(a) + 0.5))
        a = tl.where(a > INT8_MAX, INT8_MAX, a)
        a = tl.where(a < -INT8_MAX, -INT8_MAX, a)
        accumulator = tl.dot(a.to(tl.int8), b, accumulator, out_dtype=tl.int32)
        a_ptrs += BLOCK_SIZE_K * stride_xk
        b_ptrs += BLOCK_SIZE_K * stride_wk
    c = (accumulator.to(tl.float32) * a_scale[:, None] * b_scale[None, :]).to(tl.float16)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = y_ptr + stride_ym * offs_cm[:, None] + stride_yn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


def W8A8_MM_grid(M, N, K, META):
    return (roundup(M, META["BLOCK_SIZE_M"]) * roundup(N, META["BLOCK_SIZE_N"]),)
