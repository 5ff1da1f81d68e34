# %% [markdown]
# # DDS: multiply the stored blocks, skip the rest
#
# $$Y = X W^\top, \qquad W \text{ in blocks of } 32 \times 32, \text{ most of them zero}$$
#
# - $X$ is dense fp16, $Y$ is dense fp16: *dense = dense x sparse*.
# - $W$ is stored in BSR: only the nonzero blocks.
# - **Your kernel**, `DDS_MM`, loops over the blocks of one block row and loads the part of $X$ that each one needs.
#
# cuBLAS multiplies everything, zeros included, and very fast. How many zeros does it take to beat it?

# %% [markdown] lang="zh"
# # DDS：有的才乘，没有的跳过
#
# $$Y = X W^\top, \qquad W \text{ 由 } 32 \times 32 \text{ 的块组成，多数块为零}$$
#
# - $X$ 是稠密 fp16，$Y$ 是稠密 fp16：**稠密 = 稠密 x 稀疏**（dense = dense x sparse）。
# - $W$ 用 BSR 格式存储：只存保留下来的块。
# - **你的 kernel** `DDS_MM` 依次处理一个块行里的块，并取出每个块所需的那部分 $X$。
#
# cuBLAS 全部照算，连零也乘，而且算得非常快。零要占到多少，才能胜过它？

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## A block-sparse weight
#
# The timed weight is 1024 x 1024, in blocks of 32 x 32; correctness is checked on other sizes too. With 80 % of the blocks empty it
# may look like this:

# %% [markdown] lang="zh"
# ## 块稀疏的权重
#
# 计时用的权重是 1024 x 1024，分成 32 x 32 的块；正确性还会用其他大小检查。80 % 的块为空时，它可能是这个样子：

# %%
present = torch.rand(32, 32, generator=torch.Generator().manual_seed(0)) < 0.2
present[5] = False
crow = torch.cat([torch.zeros(1, dtype=torch.long), present.sum(1).cumsum(0)])
pictures.bsr_pattern(crow, present.nonzero()[:, 1], 1024)

# %% [markdown]
# Read it by rows. Block row `r` gives 32 columns of $Y$. It owns the blocks `crow[r]` up to, but not including, `crow[r + 1]`; block
# `b` is multiplied by the columns `32 * col[b]` to `32 * col[b] + 31` of $X$.

# %% [markdown] lang="zh"
# 按行来读。块行 `r` 算出 $Y$ 的 32 列。它拥有的块从 `crow[r]` 起，到 `crow[r + 1]` 为止，不含后者；
# 块 `b` 与 $X$ 的第 `32 * col[b]` 到 `32 * col[b] + 31` 列相乘。

# %% [markdown]
# ## The layer around your kernel
#
# This is given. `to_bsr` converts a weight to BSR, `naive` is the product block by block in plain PyTorch.

# %% [markdown] lang="zh"
# ## kernel 所在的层
#
# 这一部分已经写好。`to_bsr` 生成这种格式，`naive` 是用纯 PyTorch 逐块相乘的写法。

# %%
# include solutions/dds.py: BLOCK_SIZE .. BLOCK_SIZE
# include solutions/dds.py: block_norms .. launch

# %% [markdown]
# ## Step 1: find the blocks
#
# Two numbers, both from `crow_indices`. A function may return two values, `return a, b`, and its caller
# takes them with `first, last = find_blocks(...)`.

# %% [markdown] lang="zh"
# ## 第 1 步：找到块
#
# 两个数，都来自 `crow_indices`。函数可以返回两个值：`return a, b`；调用者用 `first, last = find_blocks(...)` 接住它们。

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
# ## Step 2: load the part of X that a block needs
#
# Load the block's column index, then `BLOCK` columns of $X$ from there on. The index counts blocks, not columns.
#
# $M$ is any number of tokens, so rows from `M` on must not be read, and count as zero.
# Columns need no mask: 32 divides $K$. The opening's `load_tile` would need their end anyway, so write the load out here.

# %% [markdown] lang="zh"
# ## 第 2 步：取出一个块所需的那部分 X
#
# 先读取块的列号，再从那里起读取 $X$ 的 `BLOCK` 列。列号数的是块列，不是列。
#
# $M$ 是任意的 token 数，所以第 `M` 行及以后不能读，并且当作零。
# 列不需要 mask：$K$ 能被 32 整除。而 opening 的 `load_tile` 还是会要列的终点，所以这里请把 load 直接写出来。

# %% solution="dds_step_gather"
@triton.jit
def load_x_tile(x_ptr, col_indices_ptr, b, rows, M, stride_xm, stride_xk, BLOCK: tl.constexpr):
    """The columns of x that block b is multiplied by: fp16 [len(rows), BLOCK], with zeros for rows from M on."""
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
# `values[b]` is 32 x 32 consecutive numbers: element `(n, k)` of block `b` at `b * 32 * 32 + n * 32 + k`.
# The product needs the block as `[k, n]`. No data has to move for that: load it with rows and columns exchanged.

# %% [markdown] lang="zh"
# ## 第 3 步：一次 dot
#
# `values[b]` 是内存里连续存放的 32 x 32 个数：块 `b` 的元素 `(n, k)` 位于 `b * 32 * 32 + n * 32 + k`。
# 乘法要的是 `[k, n]` 形状的块。为此不必搬动数据：读取时把行和列对调即可。

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
# From the first block to the last, call your three functions. The check includes an empty block row.

# %% [markdown] lang="zh"
# ## 第 4 步：循环
#
# 从第一个块到最后一个块，把你的三个函数串起来。检查用例里有一个块行，里面一个块也没有。

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

# %% [markdown] lang="zh"
# ## 第 5 步：写回
#
# 转换类型，再写回。最后一个行 tile 可能超出 $Y$。

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
# You have all the pieces. Put together unchanged, they are a kernel worth 60 points:
#
# 1. With the grid `DDS_MM_grid`, which is given below the kernel, `tl.program_id(0)` counts the tiles of $Y$, with the block row
#    running fastest: divided by `N // BLOCK`, the number of block rows, it gives the tile of rows; the remainder is the block row. The
#    tile of rows gives `rows`; the block row gives the 32 columns of $Y$ that this program computes.
# 2. `accumulate(...)`.
# 3. `store_tile(...)`, also if there was no block: $Y$ must be zero there, and no other program writes it.
#
# Write this in place of `pass`. The other `# YOUR CODE HERE`, below `CONFIGS`, is for more configs, later.

# %% [markdown] lang="zh"
# ## kernel
#
# 零件已经齐了。一个都不用重写，拼起来就是一个值 60 分的 kernel：
#
# 1. grid 采用 `DDS_MM_grid`（在 kernel 下方给出）时，`tl.program_id(0)` 同时给行 tile 和块行编号，块行变化最快，每个行 tile 对应 `N // BLOCK` 个块行：除法的商是行 tile，余数是块行。由前者得出 `rows`，由后者得出这个程序负责的 $Y$ 的 32 列。
# 2. `accumulate(...)`。
# 3. `store_tile(...)`，没有块时也要做：那里的 $Y$ 必须是零，而且没有别的程序会去写。
#
# 写在 `pass` 的位置。另一处 `# YOUR CODE HERE` 在 `CONFIGS` 下面，留到以后加更多 config。

# %% solution="dds_kernel"
# include solutions/dds.py: CONFIGS .. DDS_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.

# %% [markdown] lang="zh"
# 这就是评分程序。没有 GPU 时大约需要十秒。

# %% test="dds_correctness" points=60
check("dds")

# %% [markdown]
# ## Your kernel in its layer
#
# Prune a linear layer, the blocks with the smallest norms first, and see what is left:

# %% [markdown] lang="zh"
# ## 把你的 kernel 放进层里
#
# 给一个线性层剪枝，先剪最弱的块，看看剩下什么：

# %%
from grader.notebook import needs

needs("dds")
torch.manual_seed(0)
linear = torch.nn.Linear(256, 128, bias=False)
layer = SparseLinear.from_linear(linear, sparsity=0.75).to(device)
x = torch.randn(5, 256, device=device).half()
dense = to_dense(layer.values, layer.crow_indices, layer.col_indices, 256).double().cpu()
y, exact = layer(x).double().cpu(), x.double().cpu() @ dense.T
print(f"largest error of your kernel: {float((y - exact).abs().max()):.2g}")
pictures.bsr_pattern(layer.crow_indices.cpu(), layer.col_indices.cpu(), 256)

# %% [markdown]
# ## What your kernel does to memory
#
# The interpreter knows every address that your kernel loads and stores. The next cells run it on a few tiles and count. Nothing is graded.
#
# A program reads only the columns of $X$ that its block row names. Predict first: is every element of $X$ read equally often?

# %% [markdown] lang="zh"
# ## 你的 kernel 怎样访问内存
#
# 解释器知道你的 kernel 读写的每一个地址。下面几个单元让它跑几个 tile，并逐一计数。不计分。
#
# 一个程序只读取它的块行所指的那些 $X$ 的列。先预测：$X$ 的每个元素被读取的次数都一样吗？

# %%
from grader.notebook import show_memory, show_programs, show_warp

show_memory("dds", program=5)

# %% [markdown]
# Each tile of $Y$ carries the number of its program, in the order in which a GPU starts them. Neighbours in a row read the same rows
# of $X$, so these come from DRAM once and from L2 afterwards.

# %% [markdown] lang="zh"
# $Y$ 的每个 tile 上标着负责它的程序的编号，GPU 按这个顺序启动它们。同一行里相邻的程序都从 $X$ 的同几行取数，
# 所以这几行只从 DRAM 读一次，之后就来自 L2。

# %%
show_programs("dds")

# %% [markdown]
# The threads of a warp load together, and memory comes in *sectors* of 32 bytes. Neighbouring threads should ask for neighbouring bytes:

# %% [markdown] lang="zh"
# 一个 warp 的线程一起读取，而内存以 32 字节的 *sector* 为单位传送。相邻的线程应当访问相邻的字节，即合并访问：

# %%
show_warp("dds")

# %% [markdown]
# ## How fast can it get?
#
# A correct kernel is worth 60 points, a fast one the other 40. This is the path, one idea per step, with the points that each step's
# own kernel earns:
#
# @ladder dds: m1024_n1024_k1024_s90 m1024_n1024_k1024_s80 m8192_n1024_k1024_s90 m8192_n1024_k1024_s80
#
# Each step below has one change, one number to predict and one cell that checks. Run its first cell with the dots as they are: if your
# kernel has already taken the step, it says so, and there is nothing to predict. If not, put your number in their place and check; then
# change the kernel above, run its cell, and check again. A wrong prediction costs nothing, and a surprise teaches most.
#
# The checks measure no time. They look at what the compiler made of your kernel for an H200 (the instructions of one iteration of the
# loop, the registers, the shared memory), at the grid, and at the bytes that the interpreter counts on a small problem. They are
# worth no points; the clock at the end is.

# %% [markdown] lang="zh"
# ## 能快到什么程度？
#
# 做对得 60 分，做快得另外 40 分。下面是一条路线，一步一个想法，并列出每一步自己的 kernel 得多少分：
#
# @ladder dds: m1024_n1024_k1024_s90 m1024_n1024_k1024_s80 m8192_n1024_k1024_s90 m8192_n1024_k1024_s80
# | 一个程序负责 64 行和一个块行，逐块前进
# | 块行在程序编号上变得最快
# | $X$ 的 tile 和块提前取到共享内存
#
# 下面每一步都有一处改动、一个要预测的数和一个检查单元。先原样运行第一个单元，省略号不动：你的 kernel 已经做到的步骤会直接说明，不必预测。
# 否则把你的数写在省略号那里并检查；然后修改上面的 kernel，运行它所在的单元，再检查一次。猜错没有损失，而意料之外的结果最能让人学到东西。
#
# 这些检查不计时。它们看的是编译器为 H200 把你的 kernel 编译成了什么（循环一轮的指令、寄存器、共享内存），是 grid，还有解释器在一个小规模问题上
# 数出的字节数。它们不计分，计分的是最后的计时。

# %% [markdown]
# ### Faster, step 1: which programs run at the same time
#
# Programs start in the order of their ids. If neighbours read the same rows of $X$, one fetches what the others then find in L2. The
# docstring of the kernel has such an order; the other one is easily written by accident. On a GPU whose L2 holds all of $X$ the time
# hardly changes. The model in this check has a smaller L2.
#
# @speed dds: order

# %% [markdown] lang="zh"
# ### 加速第 1 步：谁和谁同时运行
#
# 程序按编号的顺序启动。如果相邻的程序读取 $X$ 的相同几行，其中一个取来的数据，其余的就能在 L2 里找到。
# kernel 的 docstring 给出了这样一种顺序；另一种顺序则很容易无意中写出来。如果 GPU 的 L2 装得下整个 $X$，计时几乎看不出差别；
# 这项检查所用的模型，L2 要小一些。
#
# @speed dds: order | M = 512、N = K = 128 时共有 4 个块行。以你现在的 kernel，最前面的 4 个程序读的是 $X$ 的几个行 tile？

# %% solution="dds_faster_order"
row_tiles = ...
### BEGIN SOLUTION
row_tiles = 1
### END SOLUTION
predict("dds", "order", row_tiles)

# %% test="dds_faster_order_check"
check("dds", speed="order")

# %% [markdown]
# ### Faster, step 2: tall tiles
#
# Every tile of rows of $X$ is multiplied by every block, so a block is read once for each tile of rows.
#
# @speed dds: tiles

# %% [markdown] lang="zh"
# ### 加速第 2 步：更高的 tile
#
# 每个行 tile 都要与块行里的所有块相乘，所以有多少个行 tile，同一个块就要被多少个程序读取。
#
# @speed dds: tiles | M = 2048 时，做完这一步之后，权重的同一个块会有几个程序去读？

# %% solution="dds_faster_tiles"
programs = ...
### BEGIN SOLUTION
programs = 2048 // 256
### END SOLUTION
predict("dds", "tiles", programs)

# %% test="dds_faster_tiles_check"
check("dds", speed="tiles")

# %% [markdown]
# ### Faster, step 3: loads ahead of time
#
# With `num_stages=1` each iteration loads its tiles and waits. With more, Triton keeps room for several iterations in shared memory, and
# loads the next tiles while one is multiplied.
#
# @speed dds: pipelined

# %% [markdown] lang="zh"
# ### 加速第 3 步：提前读取
#
# `num_stages=1` 时，每一轮循环都是发出读取 tile 的请求，然后等待。取更大的值，Triton 就会在共享内存里留出几轮的空间，
# 一边乘当前的 tile，一边去取后面的 tile。
#
# @speed dds: pipelined | 在你那个 num_stages = 2 的 config 里，如果放得下 $X$ 的两个 tile 和两个块，一个程序要占多少字节共享内存？

# %% solution="dds_faster_pipelined"
shared_bytes = ...
### BEGIN SOLUTION
shared_bytes = 2 * (128 * 32 + 32 * 32) * 2
### END SOLUTION
predict("dds", "pipelined", shared_bytes)

# %% test="dds_faster_pipelined_check"
check("dds", speed="pipelined")

# %% [markdown]
# ### Faster, step 4: load the index one iteration early
#
# Which tile of $X$ an iteration needs is given by its column index, which has to be loaded too. Triton can prefetch the tile only when it has the
# index. So load the index of the next block in this iteration, and carry it over.
#
# @speed dds: prefetch

# %% [markdown] lang="zh"
# ### 加速第 4 步：提前一轮读列号
#
# 一轮循环需要 $X$ 的哪个 tile，由列号决定，而列号本身也要读取。Triton 只有拿到列号，才能提前去取 tile。
# 所以要在这一轮就读好下一个块的列号，带到下一轮去用。
#
# @speed dds: prefetch | 在你 num_stages 最大的那个 config 里，列号提前读入之后，共享内存放得下几轮的数据？

# %% solution="dds_faster_prefetch"
iterations = ...
### BEGIN SOLUTION
iterations = 4
### END SOLUTION
predict("dds", "prefetch", iterations)

# %% test="dds_faster_prefetch_check"
check("dds", speed="prefetch")

# %% [markdown]
# ### Against the clock
#
# **Your levers:** `BLOCK_M`, `num_stages` and `num_warps` in the configs (up to 16), and what the loop loads when.

# %% [markdown] lang="zh"
# ### 实测计时
#
# **可以调的有：** config 里的 `BLOCK_M`、`num_stages` 和 `num_warps`（config 最多 16 个），以及循环里什么时候读什么。

# %% test="dds_speed" points=40
check_speed("dds")

# %% [markdown]
# ## Questions
#
# The first three have numbers of your own, derived from your name, and are marked automatically. Write your name once, as in your class
# list. An answer is a number, or arithmetic such as `2 * 3 / 4`; the cell below says whether it is right, and if not, what to look
# at.

# %% [markdown] lang="zh"
# ## 思考题
#
# 前三题的数字因人而异，由你的名字抽出，并且自动批改。请先把名字写一次，与班级名单上的写法一致。答案是一个数，或者 `2 * 3 / 4`
# 这样的算式；下面的检查单元会告诉你对不对，不对时该看哪里。

# %% solution="dds_student"
student = ""
### BEGIN SOLUTION
student = "Ada Lovelace"
### END SOLUTION

# %% [markdown]
# **1. Break-even**

# %% [markdown] lang="zh"
# **1. 盈亏平衡点**

# %% solution="dds_answer_breakeven"
ask("dds", "breakeven")
dds_breakeven = None  # per cent
### BEGIN SOLUTION
dds_breakeven = 100 * (1 - 1.2 * (1 - 0.85))
### END SOLUTION

# %% test="dds_question_breakeven" points=2
check_answer("dds", "breakeven")

# %% [markdown]
# **2. The weight in memory**

# %% [markdown] lang="zh"
# **2. 权重占多少内存**

# %% solution="dds_answer_bytes"
ask("dds", "bytes")
dds_bytes = None  # kB
### BEGIN SOLUTION
dds_bytes = (4096 * 2048 * 0.25 * 2 + 4 * 4096 * 2048 / 1024 * 0.25 + 4 * (4096 / 32 + 1)) / 1e3
### END SOLUTION

# %% test="dds_question_bytes" points=1
check_answer("dds", "bytes")

# %% [markdown]
# **3. An order of magnitude**

# %% [markdown] lang="zh"
# **3. 数量级**

# %% solution="dds_answer_magnitude"
ask("dds", "magnitude")
dds_magnitude = None  # microseconds
### BEGIN SOLUTION
dds_magnitude = 2 * 2 * 4096 * 1024 / 2e6
### END SOLUTION

# %% test="dds_question_magnitude" points=1
check_answer("dds", "magnitude")

# %% [markdown]
# **4. The missing share.** Question 1 assumed that the share $e$ of cuBLAS's rate is fixed. From the ratios of the table's last step
# at 8192 tokens: what is $e$ at each sparsity, why is it not 1, and why does it change?

# %% [markdown] lang="zh"
# **4. 缺掉的那一份。** 第 1 题假设 kernel 的速率是 cuBLAS 的固定份额 $e$。根据上面表格最后一步在 8192 个 token 时的倍数：
# 两种稀疏度下 $e$ 各是多少？它为什么不是 1？为什么会变？

# %% [markdown] answer="dds_question_share" points=2
# From a ratio $r$ at sparsity $s$ follows $e = r\,(1 - s)$, below a quarter here. It is not 1 because a 32-wide block is a
# small tile for a tensor core, X is fetched again by every block row, and the column index delays each fetch. What does not shrink with
# $s$ (reading X, writing Y, the launch) weighs more the emptier W is, so $e$ is smaller at 0.9 than at 0.8.

# %% [markdown] lang="zh"
# 由稀疏度 $s$ 下的倍数 $r$ 可得 $e = r\,(1 - s)$，这里不到四分之一。它不是 1，因为宽 32 的块对 Tensor Core 来说是很小的 tile，
# 每个块行都要重新读取 X，而且每次读取都要先等列号。不随 $s$ 减少的部分（读 X、写 Y、启动）在 W 越空时占比越大，所以 0.9 处的 $e$ 比 0.8 处小。

# %% [markdown]
# **5. Why blocks?** Compare a weight whose zeros lie anywhere (CSR: one column index for each value) with blocks of
# 32 x 32: bytes for indices, loads of $X$, and the instruction that multiplies.

# %% [markdown] lang="zh"
# **5. 为什么用块？** 把零散布各处的权重（CSR：每个值一个列号）与 32 x 32 的块作比较：索引占多少字节，怎样读取 $X$，用什么指令相乘。

# %% [markdown] answer="dds_question_blocks" points=2
# CSR has a 4-byte index for each 2-byte value, three times the bytes; a block has one index for 1024 values. CSR fetches single elements of X from
# scattered columns; a block needs 32 neighbouring columns, which are wide, coalesced loads. And tensor cores multiply whole tiles,
# so single values are left with ordinary multiply-adds, at a small fraction of the rate.

# %% [markdown] lang="zh"
# CSR 中每个 2 字节的值都带一个 4 字节的列号，共是值的三倍字节；用块存放，则 1024 个值共用一个列号。CSR 从分散的列里读取 X 的单个元素；一个块需要的是相邻的 32 列，
# 可以用宽的合并访问读取。而且 Tensor Core 乘的是整个 tile，单个的值只能用普通的乘加，速率只有一小部分。

# %% [markdown]
# **6. Uneven rows.** One block row is full (32 blocks), the others hold one block each. What does that do to the time of a launch
# with few tokens, and what could a kernel do about it?

# %% [markdown] lang="zh"
# **6. 不均匀的块行。** 一个块行是满的（32 个块），其余各只有一个块。token 少时，这对一次启动的时间有什么影响？kernel 可以怎么应对？

# %% [markdown] answer="dds_question_uneven" points=2
# A program walks its row's blocks one after another, so the launch lasts as long as the program with 32 blocks while the others are over after
# one; with few tokens there are not enough other programs to fill the gap. Remedies: split long rows among several programs and add their
# parts (atomics or a second pass), start long rows first, or let a fixed number of programs take equal shares of blocks.

# %% [markdown] lang="zh"
# 一个程序依次处理自己块行里的块，所以整次启动要等处理 32 个块的那个程序，而其他程序处理完一个块就结束了；token 少时，没有足够多的其他程序来填补空闲。
# 办法有：把长的块行拆给几个程序，再把各部分相加（原子加，或者第二遍）；先启动长的块行；或者让固定数目的程序平均分配块。

# %% [markdown]
# **7. Predict, then look.** On an H200, weight 1024 x 1024 with 70 % of its blocks empty, 65536 tokens: how many times as fast as cuBLAS fp16 is the reference solution?
# This is not marked: write down what you expect before the next cell shows the measurement.

# %% [markdown] lang="zh"
# **7. 先预测，再看。** 在 H200 上，1024 x 1024 的权重有 70 % 的块是空的，65536 个 token：参考答案是 cuBLAS fp16 的几倍速？
# 这一题不计分：在下一个单元给出实测值之前，先写下你的预期。

# %% solution="dds_prediction"
from grader.notebook.trial import lock, measured, reveal

guess = None  # times as fast as cuBLAS fp16
### BEGIN SOLUTION
guess = 1.5
### END SOLUTION
lock("dds", guess, "times as fast as cuBLAS fp16")

# %%
said = reveal("dds")
entry = measured("dds", "solution", M=65536, sparsity=0.7)[0]
said.against(entry.ratio)
print(f"{entry.time_us:.1f} us, cuBLAS fp16 {entry.cublas_us:.1f} us, with {entry.sparsity:.0%} of the work left out")

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.

# %% [markdown] lang="zh"
# ## 做完了？
#
# 保存这个 notebook。`make grade SUBMISSION=notebooks/zh` 读取保存的文件，给出的结果与上面各单元相同。
