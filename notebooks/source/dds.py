# %% [markdown]
# # DDS: multiply what is there, skip the rest
#
# $$Y = X W^\top, \qquad W \text{ in blocks of } 32 \times 32, \text{ most of them zero}$$
#
# - $X$ is dense fp16, $Y$ is dense fp16: *dense = dense x sparse*.
# - $W$ is stored in BSR: only the blocks that are there.
# - **Your kernel**, `DDS_MM`, walks over the blocks of one block row and fetches the part of $X$ that each one needs.
#
# cuBLAS does all the work, zeros included, and does it very well. How many zeros does it take to beat it?

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## A block-sparse weight
#
# The timed weight is 1024 x 1024, in blocks of 32 x 32; correctness is checked on other sizes too. With 80 % of the blocks empty it
# may look like this:

# %%
present = torch.rand(32, 32, generator=torch.Generator().manual_seed(0)) < 0.2
present[5] = False
crow = torch.cat([torch.zeros(1, dtype=torch.long), present.sum(1).cumsum(0)])
pictures.bsr_pattern(crow, present.nonzero()[:, 1], 1024)

# %% [markdown]
# Read it by rows. Block row `r` makes 32 columns of $Y$. It owns the blocks `crow[r]` up to, not with, `crow[r + 1]`;
# block `b` meets the columns `32 * col[b]` to `32 * col[b] + 31` of $X$.

# %% [markdown]
# ## The layer around your kernel
#
# This is given. `to_bsr` makes the format, `naive` is the product block by block in plain PyTorch.

# %%
# include solutions/dds.py: BLOCK_SIZE .. BLOCK_SIZE
# include solutions/dds.py: block_norms .. launch

# %% [markdown]
# ## Step 1: find the blocks
#
# Two numbers, both from `crow_indices`. A function may return two values: `return a, b`.

# %% solution="dds_step_find"
@triton.jit
def find_blocks(crow_indices_ptr, block_row):
    """The first block of a block row, and the first block after its last."""
    ### BEGIN SOLUTION
    return tl.load(crow_indices_ptr + block_row), tl.load(crow_indices_ptr + block_row + 1)
    ### END SOLUTION

# %% test="dds_step_find_check"
check("dds", step="find")

# %% [markdown]
# ## Step 2: fetch the part of X that a block needs
#
# Load the block's column index, then `BLOCK` columns of $X$ from there on. The index counts blocks, not columns.
#
# $M$ is any number of tokens, so rows from `M` on must not be read, and count as zero.
# Columns need no mask: 32 divides $K$.

# %% solution="dds_step_gather"
@triton.jit
def load_x_tile(x_ptr, col_indices_ptr, b, rows, M, stride_xm, stride_xk, BLOCK: tl.constexpr):
    """The columns of x that block b meets: fp16 [len(rows), BLOCK], with zeros for rows from M on."""
    ### BEGIN SOLUTION
    columns = tl.load(col_indices_ptr + b) * BLOCK + tl.arange(0, BLOCK)
    x_ptrs = x_ptr + rows[:, None] * stride_xm + columns[None, :] * stride_xk
    return tl.load(x_ptrs, mask=(rows < M)[:, None], other=0.0)
    ### END SOLUTION

# %% test="dds_step_gather_check"
check("dds", step="gather")

# %% [markdown]
# ## Step 3: one dot
#
# `values[b]` is 32 x 32 numbers in a row of memory: element `(n, k)` of block `b` at `b * 32 * 32 + n * 32 + k`.
# The product needs the block as `[k, n]`. No data has to move for that: load it with rows and columns exchanged.

# %% solution="dds_step_dot"
@triton.jit
def multiply_block(x, values_ptr, b, acc, BLOCK: tl.constexpr):
    """x fp16 [rows, BLOCK], acc fp32 [rows, BLOCK] -> acc + x @ block.T, fp32."""
    ### BEGIN SOLUTION
    r = tl.arange(0, BLOCK)
    block = tl.load(values_ptr + b * BLOCK * BLOCK + r[None, :] * BLOCK + r[:, None])
    return tl.dot(x, block, acc)
    ### END SOLUTION

# %% test="dds_step_dot_check"
check("dds", step="dot")

# %% [markdown]
# ## Step 4: the loop
#
# From the first block to the last, your three functions in a row. The check has a block row without any block.

# %% solution="dds_step_loop"
@triton.jit
def accumulate(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, block_row, rows, M, stride_xm, stride_xk,
    BLOCK_M: tl.constexpr, BLOCK: tl.constexpr,
):
    """The sum over the blocks of a block row: fp32 [BLOCK_M, BLOCK]."""
    ### BEGIN SOLUTION
    first, last = find_blocks(crow_indices_ptr, block_row)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(first, last):
        x = load_x_tile(x_ptr, col_indices_ptr, b, rows, M, stride_xm, stride_xk, BLOCK)
        acc = multiply_block(x, values_ptr, b, acc, BLOCK)
    return acc
    ### END SOLUTION

# %% test="dds_step_loop_check"
check("dds", step="loop")

# %% [markdown]
# ## Step 5: store
#
# Convert and store. The last tile of rows may reach beyond $Y$.

# %% solution="dds_step_store"
@triton.jit
def store_tile(y_ptr, acc, rows, columns, M, stride_ym, stride_yn):
    """Stores acc, fp32 [len(rows), len(columns)], as fp16 into the rows of y below M."""
    ### BEGIN SOLUTION
    y_ptrs = y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(rows < M)[:, None])
    ### END SOLUTION

# %% test="dds_step_store_check"
check("dds", step="store")

# %% [markdown]
# ## The kernel
#
# All the pieces are there. Put together, none rewritten, they are a kernel worth 60 points:
#
# 1. With the grid `DDS_MM_grid`, which is given below the kernel, `tl.program_id(0)` counts tiles of rows and block rows, block
#    rows fastest, and `N // BLOCK` block rows make a row of tiles: divide for the tile of rows, take the remainder for the
#    block row. From the one, `rows`; from the other, the 32 columns of $Y$ that this program makes.
# 2. `accumulate(...)`.
# 3. `store_tile(...)`, also when there was no block: $Y$ must be zero there, and nobody else writes it.
#
# They go where `pass` stands. The other `# YOUR CODE HERE`, below `CONFIGS`, is for more configs, later.

# %% solution="dds_kernel"
# include solutions/dds.py: CONFIGS .. DDS_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.

# %% test="dds_correctness" points=60
check("dds")

# %% [markdown]
# ## Your kernel in its layer
#
# Prune a linear layer, the weakest blocks first, and see what is left:

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(256, 128, bias=False)
layer = SparseLinear.from_linear(linear, sparsity=0.75).to(device)
x = torch.randn(5, 256, device=device).half()
dense = to_dense(layer.values, layer.crow_indices, layer.col_indices, 256).double().cpu()
y, exact = layer(x).double().cpu(), x.double().cpu() @ dense.T
print(f"largest error of your kernel: {float((y - exact).abs().max()):.2g}")
pictures.bsr_pattern(layer.crow_indices.cpu(), layer.col_indices.cpu(), 256)

# %% [markdown]
# ## How fast can it get?
#
# A way that was really walked, one idea a step:
#
# @ladder dds: m1024_n1024_k1024_s90 m1024_n1024_k1024_s80 m8192_n1024_k1024_s90 m8192_n1024_k1024_s80
#
# What to read from it:
#
# - **Step 1** is already near cuBLAS at 90 % empty. There is simply less to do.
# - **Step 2** was a good idea that hardly mattered: all of $X$ fits this GPU's L2 in either order.
# - **Step 3** lets loads run ahead of the products. It was expected to help with 1024 tokens, and helped with 8192.
# - What still waits: the tile of $X$ depends on a column index, which is itself a load. Somebody should fetch that index
#   one block ahead.
#
# **Your levers:** `BLOCK_M`, `num_stages` and `num_warps` in the configs (up to 16), and what the loop loads when.

# %% test="dds_speed" points=40
check_speed("dds")

# %% [markdown]
# ## Questions
#
# **1. Break-even.** Say your kernel does its products at a share $e$ of cuBLAS's rate, and does only those of present
# blocks. From which sparsity on is it faster? Take the ratios of the table's last step at 8192 tokens: what is $e$
# there, and why is it not 1?

# %% [markdown] answer="dds_question_breakeven" points=4
# Dense time 1, ours $(1 - s) / e$: faster from $s = 1 - e$ on. From a ratio $r$ at sparsity $s$ follows $e = r\,(1 - s)$: with the ratios
# measured, $e$ is @bench{0.1 * ratio("dds", "m8192_n1024_k1024_s90"):.3f} at 0.9 and @bench{0.2 * ratio("dds", "m8192_n1024_k1024_s80"):.3f} at 0.8, so break-even comes out at @bench{1 - 0.1 * ratio("dds", "m8192_n1024_k1024_s90"):.2f} from the one and @bench{1 - 0.2 * ratio("dds", "m8192_n1024_k1024_s80"):.2f} from the other
# (measured: @bench{0.7 + 0.1 * log(ratio("dds", "m8192_n1024_k1024_s70")) / (log(ratio("dds", "m8192_n1024_k1024_s70")) - log(ratio("dds", "m8192_n1024_k1024_s80"))):.2f}; $e$ rises as the weight fills). It is not 1 because a 32-wide block is a
# small tile for a tensor core, X is fetched again by every block row, the column index delays each fetch, and what does not shrink with
# $s$ (reading X, writing Y, the launch) weighs more the emptier W is; that is why $e$ is smaller at 0.9.

# %% [markdown]
# **2. Why blocks?** Compare a weight whose zeros lie anywhere (CSR: one column index for each value) with blocks of
# 32 x 32: bytes for indices, loads of $X$, and the instruction that multiplies.

# %% [markdown] answer="dds_question_blocks" points=3
# CSR has a 4-byte index for each 2-byte value, three times the bytes; a block has one index for 1024 values. CSR fetches single elements of X from
# scattered columns; a block needs 32 neighbouring columns, which are wide, coalesced loads. And tensor cores multiply whole tiles,
# so single values are left with ordinary multiply-adds, at a small part of the rate.

# %% [markdown]
# **3. Uneven rows.** One block row is full (32 blocks), the others hold one block each. What does that do to the time of a launch
# with few tokens, and what could a kernel do about it?

# %% [markdown] answer="dds_question_uneven" points=3
# A program walks its row's blocks one after another, so the launch lasts as long as the program with 32 blocks while the others are over after
# one; with few tokens there are not enough other programs to fill the gap. Remedies: split long rows among several programs and add their
# parts (atomics or a second pass), start long rows first, or let a fixed number of programs take equal shares of blocks.

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.
