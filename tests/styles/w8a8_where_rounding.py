"""W8A8 after tutorial 03: rows and columns wrap around by modulo instead of a mask, rounding by tl.where."""
import torch
import triton
import triton.language as tl

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
M, N, K = 512, 512, 512  # sizes of my own test below


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=4, num_warps=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 4}, num_stages=3, num_warps=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def W8A8_MM(
    # Pointers
    x_ptr, qweight_ptr, input_scale_ptr, weight_scale_ptr, y_ptr,
    # Matrix dimensions
    M, N, K,
    # Strides
    stride_xm, stride_xk,  #
    stride_wk, stride_wn,  #
    stride_ym, stride_yn,
    # Meta-parameters
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,  #
    GROUP_M: tl.constexpr,  #
):
    """Kernel for Y = (round(X / s_x) @ W_q) * s_x * s_w."""
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_M)
    num_pid_n = tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m

    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)

    offs_xm = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_wn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (offs_xm[:, None] * stride_xm + offs_k[None, :] * stride_xk)
    w_ptrs = qweight_ptr + (offs_k[:, None] * stride_wk + offs_wn[None, :] * stride_wn)

    x_scale = tl.load(input_scale_ptr + offs_xm)[:, None]
    w_scale = tl.load(weight_scale_ptr + offs_wn)[None, :]

    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = tl.load(x_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        w = tl.load(w_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        r = tl.math.div_rn(x.to(tl.float32), tl.broadcast_to(x_scale, (BLOCK_M, BLOCK_K)))
        r = tl.where(r > 0, r + 0.5, r - 0.5)
        r = tl.clamp(r, -128.0, 127.0)
        accumulator = tl.dot(r.to(tl.int8), w, accumulator, out_dtype=tl.int32)
        x_ptrs += BLOCK_K * stride_xk
        w_ptrs += BLOCK_K * stride_wk
    y = (accumulator * x_scale * w_scale).to(tl.float16)

    offs_ym = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_yn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    y_ptrs = y_ptr + stride_ym * offs_ym[:, None] + stride_yn * offs_yn[None, :]
    y_mask = (offs_ym[:, None] < M) & (offs_yn[None, :] < N)
    tl.store(y_ptrs, y, mask=y_mask)


torch.manual_seed(0)
x = torch.randn((M, K), device=DEVICE, dtype=torch.float16)
w = torch.randint(-127, 128, (N, K), device=DEVICE, dtype=torch.int8)
x_scale = x.float().abs().amax(dim=1) / 127
w_scale = torch.rand(N, device=DEVICE)
y = torch.empty((M, N), device=DEVICE, dtype=torch.float16)
if is_cuda():
    W8A8_MM[lambda META: (triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),)](
        x, w.t(), x_scale, w_scale, y, M, N, K, *x.stride(), *w.t().stride(), *y.stride())
    expected = (x.float() @ (w.float() * w_scale[:, None]).t()).half()
    assert torch.allclose(y, expected, atol=1e-1, rtol=1e-1)
    print("all good!")
