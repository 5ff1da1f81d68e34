"""DDS: dense = dense x sparse, the weight being block-sparse with 32 x 32 blocks.

    y[m, n] = sum_b sum_c x[m, 32 * col[b] + c] * values[b, n % 32, c]      b over the blocks of row n // 32

The weight W [N, K] is in block-sparse-row (BSR) format: block row r owns the blocks crow[r] up to, but not including,
crow[r + 1], and block b covers the columns 32 * col[b] to 32 * col[b] + 31 of W. Only present blocks are read
or multiplied.

A program owns BLOCK_M rows of Y and one block row, so every element of Y is written once, by one program: no
atomics, and an empty block row still gets its zeros. Block rows run fastest over the program ids: programs
that run at the same time gather from the same rows of X, which come from DRAM once and from L2 afterwards.
"""

import torch
import triton
import triton.language as tl

BLOCK_SIZE = 32

CONFIGS = [
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=2),
]
### BEGIN SOLUTION
# Most block rows hold a few blocks, so a program is over after a few steps and latency is what it spends.
# Which tile of X a step fetches depends on a column index; the kernel loads that index one block ahead, so
# that the pipeliner can keep num_stages - 1 tiles of X in flight instead of stopping for an index each time.
CONFIGS = [
    # few tokens: too few programs to hide latency behind each other, so more tiles in flight in each
    triton.Config({"BLOCK_M": 16}, num_warps=2, num_stages=4),
    triton.Config({"BLOCK_M": 32}, num_warps=2, num_stages=4),
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=3),
    triton.Config({"BLOCK_M": 64}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 128}, num_warps=4, num_stages=4),
    # many tokens: more programs at a time, and fewer that each read the same values
    triton.Config({"BLOCK_M": 128}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK_M": 256}, num_warps=4, num_stages=2),
    triton.Config({"BLOCK_M": 256}, num_warps=4, num_stages=3),
]
### END SOLUTION


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def DDS_MM(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, y_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_ym, stride_yn,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Y = x @ W^T for W [N, K] in BSR format with BLOCK x BLOCK blocks, BLOCK = 32.

    Every tensor begins at a multiple of 16 bytes, and spans fewer than 2^31 elements.
    x fp16 [M, K], element (m, k) at m * stride_xm + k * stride_xk; any strides.
    values fp16 [nnz, 32, 32], contiguous:
    values[b, r, c] is W[32 * block_row + r, 32 * col_indices[b] + c].
    crow_indices int32 [N/32 + 1], from 0 to nnz: block row r owns the blocks
    crow_indices[r] to crow_indices[r + 1] - 1.
    col_indices int32 [nnz], rising within a block row. A block row may be empty or full, and nnz may be 0.
    y fp16 [M, N], element (m, n) at m * stride_ym + n * stride_yn, stride_yn being 1; holds anything on entry.
    M is any size and need not be a multiple of the tile; N and K are multiples of 32.

    Meta parameter: a program makes BLOCK_M rows by BLOCK columns of Y. With DDS_MM_grid below,
    program_id(0) counts over tiles of rows and block rows, block rows fastest: the block row is
    program_id(0) % (N // BLOCK), and the tile of rows program_id(0) // (N // BLOCK). (Without
    DDS_MM_grid the grader launches the grid (cdiv(M, BLOCK_M), N // BLOCK): then program_id(0) is
    the tile of rows and program_id(1) the block row.)

    To do: for each block of the block row, load the tile of x that its column index names and the
    block, add their product to an fp32 accumulator. Convert to fp16 and store, also when there was
    no block. Nothing outside the tensors may be read or written.
    """
    ### BEGIN SOLUTION
    block_rows = N // BLOCK
    block_row = tl.program_id(0) % block_rows
    offs_m = tl.program_id(0) // block_rows * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_b = tl.arange(0, BLOCK)

    # Rows beyond the matrix read its last one again, so that the loop needs no mask; the store leaves them
    # out. Offsets are int64: M * K may exceed 2^31.
    row = tl.minimum(offs_m, M - 1).to(tl.int64)
    first = tl.load(crow_indices_ptr + block_row)
    last = tl.load(crow_indices_ptr + block_row + 1)
    x_ptrs = x_ptr + row[:, None] * stride_xm + offs_b.to(tl.int64)[None, :] * stride_xk
    # A block is stored [n, c]; read as [c, n] it is the right operand, contiguous along the summed axis.
    value_ptrs = values_ptr + first.to(tl.int64) * (BLOCK * BLOCK) + offs_b[:, None] + offs_b[None, :] * BLOCK

    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    col = tl.load(col_indices_ptr + first, mask=first < last, other=0)
    for b in range(first, last):
        block = tl.load(value_ptrs)  # before x: it need not wait for the column index
        x = tl.load(x_ptrs + col.to(tl.int64) * BLOCK * stride_xk)
        acc = tl.dot(x, block, acc)
        value_ptrs += BLOCK * BLOCK
        col = tl.load(col_indices_ptr + b + 1, mask=b + 1 < last, other=0)

    offs_n = (block_row * BLOCK + offs_b).to(tl.int64)
    y_ptrs = y_ptr + offs_m.to(tl.int64)[:, None] * stride_ym + offs_n[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(offs_m < M)[:, None])
    ### END SOLUTION


def DDS_MM_grid(M: int, N: int, K: int, meta: dict[str, int]) -> tuple[int, int]:
    """One program for each tile of rows and each block row, all on axis 0: axis 1 ends at 65535."""
    return (triton.cdiv(M, meta["BLOCK_M"]) * (N // BLOCK_SIZE), 1)


def block_norms(weight: torch.Tensor) -> torch.Tensor:
    """Frobenius norm of each 32 x 32 block: floating-point [N, K] -> fp32 [N/32, K/32].

    Raises ValueError for a shape that 32 does not divide.
    """
    return _blocks(weight).float().square().sum(dim=(2, 3)).sqrt()


def mask_by_norm(weight: torch.Tensor, sparsity: float) -> torch.Tensor:
    """Which blocks to keep so that a share `sparsity` of them, those with the smallest norms, goes.

    weight: floating-point [N, K]; sparsity: 0 to 1. Returns bool [N/32, K/32].
    Raises ValueError for a sparsity outside 0 to 1 or a shape that 32 does not divide.
    """
    if not 0.0 <= sparsity <= 1.0:
        raise ValueError(
            f"mask_by_norm: found sparsity={sparsity}, expected 0 to 1; pass the share of blocks to drop"
        )
    norms = block_norms(weight)
    keep = norms.numel() - round(sparsity * norms.numel())
    mask = torch.zeros(norms.numel(), dtype=torch.bool, device=weight.device)
    mask[torch.topk(norms.flatten(), keep).indices] = True
    return mask.view(norms.shape)


def to_bsr(weight: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The blocks of a weight that a mask keeps, in BSR format.

    weight: floating-point [N, K]; mask: bool [N/32, K/32]. Returns values fp16 [nnz, 32, 32], crow_indices int32
    [N/32 + 1] and col_indices int32 [nnz], columns rising within a block row.
    Raises TypeError for a mask that is not bool; ValueError for shapes that do not match, or a value that is
    not finite in fp16.
    """
    blocks = _blocks(weight)
    if mask.dtype != torch.bool:
        raise TypeError(f"to_bsr: found a mask in {mask.dtype}, expected torch.bool; compare it with 0")
    if mask.shape != blocks.shape[:2]:
        raise ValueError(
            f"to_bsr: found a mask of shape {tuple(mask.shape)}, expected {tuple(blocks.shape[:2])}, one "
            "entry for each 32 x 32 block; build it with mask_by_norm"
        )
    mask = mask.to(weight.device)
    values = blocks[mask].to(torch.float16).contiguous()
    if not torch.isfinite(values).all():
        raise ValueError(
            "to_bsr: found a value that is not finite in fp16, expected at most 65504; rescale the weight"
        )
    crow_indices = torch.zeros(mask.shape[0] + 1, dtype=torch.int32, device=weight.device)
    crow_indices[1:] = mask.sum(dim=1).cumsum(0)
    return values, crow_indices, mask.nonzero()[:, 1].to(torch.int32)


def to_dense(
    values: torch.Tensor, crow_indices: torch.Tensor, col_indices: torch.Tensor, in_features: int
) -> torch.Tensor:
    """The inverse of to_bsr. values [nnz, 32, 32] -> [N, in_features], in the dtype of values."""
    block_rows = crow_indices.numel() - 1
    row_of = torch.repeat_interleave(
        torch.arange(block_rows, device=values.device), crow_indices.diff().long()
    )
    blocks = values.new_zeros(block_rows, in_features // BLOCK_SIZE, BLOCK_SIZE, BLOCK_SIZE)
    blocks[row_of, col_indices.long()] = values
    return blocks.transpose(1, 2).reshape(block_rows * BLOCK_SIZE, in_features)


def _blocks(weight: torch.Tensor) -> torch.Tensor:
    """[N, K] -> [N/32, K/32, 32, 32]."""
    if weight.dim() != 2 or weight.shape[0] % BLOCK_SIZE or weight.shape[1] % BLOCK_SIZE:
        raise ValueError(
            f"found a weight of shape {tuple(weight.shape)}, expected [N, K] with multiples of 32; "
            "pad the weight"
        )
    N, K = weight.shape
    return weight.reshape(N // BLOCK_SIZE, BLOCK_SIZE, K // BLOCK_SIZE, BLOCK_SIZE).transpose(1, 2)


def naive(
    x: torch.Tensor, values: torch.Tensor, crow_indices: torch.Tensor, col_indices: torch.Tensor
) -> torch.Tensor:
    """What DDS_MM computes, block by block in plain PyTorch and fp64.

    x fp16 [M, K]; values fp16 [nnz, 32, 32]; crow_indices int32 [N/32 + 1]; col_indices int32 [nnz].
    Returns fp16 [M, N].
    """
    crow, cols = crow_indices.tolist(), col_indices.tolist()
    y = torch.zeros(x.shape[0], (len(crow) - 1) * BLOCK_SIZE, dtype=torch.float64, device=x.device)
    for r in range(len(crow) - 1):
        for b in range(crow[r], crow[r + 1]):
            x_tile = x[:, BLOCK_SIZE * cols[b] : BLOCK_SIZE * (cols[b] + 1)].double()
            y[:, BLOCK_SIZE * r : BLOCK_SIZE * (r + 1)] += x_tile @ values[b].double().t()
    return y.to(torch.float16)


class SparseLinear(torch.nn.Module):
    """y = x W^T + bias with W block-sparse; for inference only.

    Buffers: values fp16 [nnz, 32, 32], crow_indices int32 [out_features / 32 + 1], col_indices int32 [nnz],
    bias fp16 [out_features] or None. in_features and out_features must be multiples of 32. A new layer has no
    blocks; load_state_dict takes a state with any number of them.
    """

    values: torch.Tensor
    crow_indices: torch.Tensor
    col_indices: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = False, device: torch.device | None = None
    ) -> None:
        super().__init__()
        if in_features % 32 or out_features % 32 or in_features < 32 or out_features < 32:
            raise ValueError(
                f"SparseLinear: found in_features={in_features} and out_features={out_features}, "
                "expected positive multiples of 32; pad the Linear layer"
            )
        self.in_features, self.out_features = in_features, out_features
        block_rows = out_features // BLOCK_SIZE
        no_values = torch.zeros(0, BLOCK_SIZE, BLOCK_SIZE, dtype=torch.float16, device=device)
        self.register_buffer("values", no_values)
        self.register_buffer("crow_indices", torch.zeros(block_rows + 1, dtype=torch.int32, device=device))
        self.register_buffer("col_indices", torch.zeros(0, dtype=torch.int32, device=device))
        zeros = torch.zeros(out_features, dtype=torch.float16, device=device)
        self.register_buffer("bias", zeros if bias else None)

    @classmethod
    def from_linear(
        cls, linear: torch.nn.Linear, *, sparsity: float | None = None, mask: torch.Tensor | None = None
    ) -> "SparseLinear":
        """Prunes whole 32 x 32 blocks of a Linear layer.

        Either sparsity, the share of blocks to drop (smallest norms first), or mask, bool [N/32, K/32], true
        where a block stays. Raises TypeError for any other kind of module or a mask of another dtype; ValueError for
        a bad shape or sparsity, or when not exactly one of the two is given.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(
                f"from_linear: found {type(linear).__name__}, expected torch.nn.Linear; pass such a layer"
            )
        weight = linear.weight.detach()
        if mask is None and sparsity is not None:
            mask = mask_by_norm(weight, sparsity)
        elif mask is None or sparsity is not None:
            found = "neither sparsity nor mask" if mask is None else "both sparsity and mask"
            raise ValueError(
                f"from_linear: found {found}, expected exactly one; pass sparsity=0.9, for instance"
            )
        has_bias = linear.bias is not None
        layer = cls(linear.in_features, linear.out_features, has_bias, weight.device)
        layer.values, layer.crow_indices, layer.col_indices = to_bsr(weight, mask)
        if has_bias:
            layer.bias = linear.bias.detach().to(torch.float16)
        return layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x fp16 [..., in_features] -> fp16 [..., out_features], on the device of the layer.

        Raises TypeError for another dtype; ValueError for another shape or device, or for a CPU tensor when
        the kernel is compiled for a GPU.
        """
        self._check(x)
        rows = x.reshape(-1, self.in_features)
        # the kernel is promised a multiple of 16 bytes
        if not torch.compiler.is_compiling() and rows.storage_offset() % 8:
            rows = rows.clone()
        y = torch.empty(rows.shape[0], self.out_features, dtype=torch.float16, device=x.device)
        if rows.shape[0]:
            launch(rows, self.values, self.crow_indices, self.col_indices, y)
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], self.out_features)

    def _load_from_state_dict(self, state_dict, prefix, *arguments):  # type: ignore[no-untyped-def]
        """The number of blocks is part of the state, not of the layer: make room before values are copied."""
        for name in ("values", "col_indices"):
            stored = state_dict.get(prefix + name)
            if stored is not None:
                setattr(self, name, getattr(self, name).new_zeros(stored.shape))
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _check(self, x: torch.Tensor) -> None:
        if x.dtype != torch.float16:
            raise TypeError(f"forward: found x in {x.dtype}, expected torch.float16; call x.half()")
        if self.values.dtype != torch.float16:
            raise TypeError(
                f"forward: found values in {self.values.dtype}, expected torch.float16; "
                "call .half() on the layer"
            )
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(
                f"forward: found x of shape {tuple(x.shape)}, expected (..., {self.in_features}); "
                "check which layer x belongs to"
            )
        if x.device != self.values.device:
            raise ValueError(
                f"forward: found x on {x.device}, expected {self.values.device} where the weight is; "
                "move one of them"
            )


def launch(
    x: torch.Tensor,
    values: torch.Tensor,
    crow_indices: torch.Tensor,
    col_indices: torch.Tensor,
    y: torch.Tensor,
) -> None:
    """Runs DDS_MM into y. Shapes as for `naive`. x may have any strides; y any row stride, but contiguous columns.

    Raises ValueError for CPU tensors, unless the kernel is interpreted (TRITON_INTERPRET=1).
    """
    (M, K), N = x.shape, y.shape[1]
    arguments = (x, values, crow_indices, col_indices, y, M, N, K, *x.stride(), *y.stride(), BLOCK_SIZE)
    if not isinstance(DDS_MM.fn, triton.JITFunction):  # interpreted: autotuning would need a GPU to time
        meta = CONFIGS[0].kwargs
        DDS_MM.fn[DDS_MM_grid(M, N, K, meta)](*arguments, **meta)
    elif x.device.type == "cpu":
        raise ValueError(
            "forward: found x on cpu and a kernel compiled for a GPU, expected a CUDA tensor; "
            "move the layer and x with .cuda(), or set TRITON_INTERPRET=1 before Python starts"
        )
    else:
        DDS_MM[lambda meta: DDS_MM_grid(M, N, K, meta)](*arguments)
