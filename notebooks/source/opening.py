# %% [markdown]
# # Kernels for smaller numbers
#
# A large model spends most of its time in one operation: $Y = XW^\top$.
# This lab makes it cheaper in three ways, one notebook each:
#
# | notebook | the weight is | what gets cheaper |
# |---|---|---|
# | `w8a8` | int8, and so are the activations | the products, and reading the weight |
# | `w4a16` | int4, eight weights to a word | reading the weight |
# | `dds` | mostly empty, in blocks of 32 x 32 | both, where nothing is stored |
#
# You need to know PyTorch. Triton is taught here, in ten warm-ups: you fill in a cell, and the cell after it says whether it is right
# and, if not, what is wrong and on which line. You hand in nothing, and there are no points. What you write here, you use again in
# the labs.

# %% [markdown] lang="zh"
# # 为低位宽数据写 kernel
#
# 大模型的时间大多花在同一种运算上：$Y = XW^\top$。这组实验用三种办法让它更省，每种一个 notebook：
#
# | notebook | 权重 | 省下什么 |
# |---|---|---|
# | `w8a8` | int8，激活也是 int8 | 乘法，以及权重的读取 |
# | `w4a16` | int4，八个权重拼成一个 32 位字（word） | 权重的读取 |
# | `dds` | 由 32 x 32 的块组成，多数块是空的 | 没有存的部分，两样都省 |
#
# 你需要会用 PyTorch。Triton 在这里教，共十个小练习：你填写一个单元，紧接着的单元会告诉你对不对；不对的话，错在哪一行、错在什么地方。
# 不用上交，也不计分。在这里写的东西，后面的实验里还会用到。思考题和检查单元用中文回答，编译错误等细节和代码里的注释是英文的。

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## 1. Where does the time go?
#
# $X$ is $[M, K]$: one row per token. $W$ is $[N, K]$, $Y$ is $[M, N]$.
#
# The product takes $2MNK$ operations, a multiplication and an addition each.
# It must also read $X$ and $W$ and write $Y$ at least once.
# Operations divided by bytes is the **arithmetic intensity**: operations per byte moved.

# %% [markdown] lang="zh"
# ## 1. 时间花在哪里？
#
# $X$ 的形状是 $[M, K]$，一行对应一个 token；$W$ 是 $[N, K]$，$Y$ 是 $[M, N]$。
#
# 这个乘积要做 $2MNK$ 次运算，乘法和加法各占一半。同时，至少要把 $X$ 和 $W$ 各读一遍，把 $Y$ 写一遍。
# 两者相除，就是**算术强度**（arithmetic intensity）：每搬运一个字节，做多少次运算。

# %%
def intensity(M, N, K, x_bytes=2, w_bytes=2, y_bytes=2):
    """Operations per byte that must move."""
    return 2 * M * N * K / (M * K * x_bytes + N * K * w_bytes + M * N * y_bytes)


for M in (1, 16, 512, 4096):
    fp16, w8, w4 = (intensity(M, 4096, 4096, w_bytes=width) for width in (2, 1, 0.5))
    print(f"M = {M:4}: fp16 {fp16:7.1f}, int8 weight {w8:7.1f}, int4 weight {w4:7.1f} operations per byte")

# %% [markdown]
# The parts of a GPU, by the names that all notebooks use:
#
# | name | what it is |
# |---|---|
# | DRAM, or memory | large and slow; holds the tensors |
# | L2 | a cache in front of it, smaller and faster, for the whole GPU |
# | multiprocessor, or SM | a GPU has many; each runs a few small programs at a time |
# | registers, shared memory | what a program works on while it runs, on its SM: the fastest memory, and the smallest |
# | warp | 32 threads of an SM that run in step; the elements that a program works on are distributed among them |
# | tensor core | the part of an SM that multiplies small matrices of fp16 or int8 as a whole |
#
# Compare the intensity with the operations that a GPU's tensor cores can do while one byte arrives from DRAM. For an H200 that is
# @bench{fp16_per_second / bytes_per_second:.0f} operations in fp16 (@bench{fp16_per_second / 1e12:.0f} TFLOP/s divided by
# @bench{bytes_per_second / 1e12:.1f} TB/s), and twice that in int8 (@bench{2 * fp16_per_second / 1e12:.0f} TOP/s: integers are not
# floating point, so not FLOP). These are peaks, at the highest clock of 1980 MHz. NVIDIA's data sheet has 989 TFLOP/s, for 1830 MHz;
# under full load the power limit held the GPU of our benchmarks at 1590 to 1650 MHz.
#
# - Below that number you wait for **memory** (the product is *memory-bound*): one token, a few tokens. Fewer bytes per weight mean
#   less time.
# - Above it you wait for the **tensor cores** (*compute-bound*): many tokens. Cheaper products mean less time.
#
# The whole lab follows from this. Drawn as a picture it is called a roofline:

# %% [markdown] lang="zh"
# GPU 的各个部分，所有 notebook 都用这些名称：
#
# | 名称 | 是什么 |
# |---|---|
# | DRAM，也叫显存 | 容量大，速度慢；张量就放在这里 |
# | L2 | 显存前面的缓存，更小也更快，整个 GPU 共用 |
# | 多处理器，即 SM | 一个 GPU 有很多个；每个同时运行几个小程序 |
# | 寄存器、共享内存 | 程序运行时正在处理的数据放在这里，就在它的 SM 上：最快，也最少 |
# | warp | SM 上 32 个同步执行的线程；程序要处理的元素分给它们 |
# | Tensor Core | SM 中把 fp16 或 int8 的小矩阵整个相乘的部件 |
#
# GPU 自己也有这样一个数：每从显存送来一个字节的时间里，它的 Tensor Core 能做多少次运算。
# H200 在 fp16 下是 @bench{fp16_per_second / bytes_per_second:.0f} 次（@bench{fp16_per_second / 1e12:.0f} TFLOP/s
# 除以 @bench{bytes_per_second / 1e12:.1f} TB/s），int8 下再翻一倍（@bench{2 * fp16_per_second / 1e12:.0f} TOP/s：
# 整数不是浮点数，所以不写 FLOP）。这些是峰值，按最高频率 1980 MHz 算。NVIDIA 的规格表写的是 989 TFLOP/s，对应 1830 MHz；
# 满载时，功耗上限把我们测试用的 GPU 压在 1590 到 1650 MHz。
#
# - 低于这个数，时间花在访存上，叫**访存受限**（memory-bound）：一个或几个 token。每个权重的字节少了，时间就少了。
# - 高于这个数，时间花在 Tensor Core 上，叫**计算受限**（compute-bound）：很多 token。乘法更便宜了，时间就少了。
#
# 整组实验都由此而来。把它画成图，叫作 roofline：

# %%
# A second, at best, on the H200 of our benchmarks:
BYTES, FP16 = @bench{bytes_per_second:.6g}, @bench{fp16_per_second:.6g}
formats = {"fp16": (2, FP16), "w8a8": (1, 2 * FP16), "w4a16": (0.5, FP16)}  # bytes of a weight, operations a second


def spot(name, M, size=4096):
    """Where a format would be if nothing but the two limits held; times in microseconds."""
    width, rate = formats[name]
    operations, found = 2 * M * size**2, intensity(M, size, size, w_bytes=width)
    best = 1e6 * operations / min(found * BYTES, rate)
    bound = "memory-bound" if found * BYTES < rate else "compute-bound"
    return pictures.RooflinePoint(f"{name}, {bound}: {best:.1f} us", operations, operations / found, best, best)


def drawn(M):
    points, roofs = [spot(name, M) for name in formats], {"fp16": FP16 / 1e12, "int8": 2 * FP16 / 1e12}
    legend = f"the most that is possible, M = {M}, N = K = 4096"
    return pictures.roofline(points, BYTES / 1e9, roofs, legend, reach=(1, 10000))


tokens = (1, 4, 16, 64, 128, 256, 512, 1024, 4096)
pictures.Slider("tokens (M)", {str(M): drawn(M) for M in tokens}, first=2)

# %% [markdown]
# Move the slider. With few tokens all three formats are on the slope, and the time is that of the weight's bytes: w4a16 is the fastest.
# Then w4a16 meets its roof, which is that of fp16: its products are fp16, and only its weight is small. w8a8 meets its roof last, and the
# roof is twice as high: with many tokens nothing but cheaper products helps.

# %% [markdown] lang="zh"
# 移动滑块看看。token 少时，三种格式都在斜线上，时间就是读权重的时间：w4a16 最快。接着 w4a16 先碰到顶，这个顶与 fp16 的一样高：
# 它的乘法仍是 fp16，变小的只有权重。w8a8 最后碰到顶，它的顶高一倍：token 多时，只有更便宜的乘法才管用。

# %% [markdown]
# ## 2. Triton
#
# A Triton kernel is a function that runs many times at once. Each run is a **program**, and works on a **tile**:
# a small block of numbers that it loads, changes and stores as a whole.
#
# A program asks for its number and computes which elements are its own:

# %% [markdown] lang="zh"
# ## 2. Triton
#
# Triton 的 kernel 是一个函数，同时运行很多份。每一份叫作一个**程序**（program），处理一个 **tile**：一小片数，
# 一起读入，一起计算，一起写出。
#
# 程序先问自己是几号，再算出哪些元素归自己：

# %%
@triton.jit
def double_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # the elements of this program's tile
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at))


x = torch.arange(12.0, device=device)
y = torch.empty_like(x)
double_kernel[(3,)](x, y, BLOCK=4)  # [grid]: three programs, numbered 0 to 2
print(y)

# %% [markdown]
# Three things to remember:
#
# 1. `x_ptr` is the address of element 0. `x_ptr + at` is a tile of addresses, and `tl.load` turns it into a tile of numbers.
# 2. `tl.arange(0, BLOCK)` is the tile 0, 1, ..., BLOCK - 1. Sizes of tiles are powers of two, and known when the kernel is
#    compiled: they are `tl.constexpr` parameters.
# 3. A kernel returns nothing; it stores. A helper under `@triton.jit` may return a tile.
#
# ### Warm-up 1: add
#
# The same with two inputs. Replace `pass`, run the cell, run the check.

# %% [markdown] lang="zh"
# 有三点要记住：
#
# 1. `x_ptr` 是第 0 个元素的地址。`x_ptr + at` 是一个由地址组成的 tile，`tl.load` 把它变成由数组成的 tile。
# 2. `tl.arange(0, BLOCK)` 就是 0, 1, ..., BLOCK - 1 这个 tile。tile 的大小必须是 2 的幂，而且编译 kernel 时就要确定：所以它们是 `tl.constexpr` 参数。
# 3. kernel 没有返回值，结果要用 store 写出去。加了 `@triton.jit` 的辅助函数则可以返回 tile。
#
# ### 练习 1：加法
#
# 和上面一样，只是有两个输入。把 `pass` 换成你的代码，运行这个单元，再运行检查单元。

# %% solution="opening_step_add"
@triton.jit
def add(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """out = x + y; each program adds BLOCK neighbouring elements."""
    ### BEGIN SOLUTION
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))
    ### END SOLUTION

# %% test="opening_step_add_check"
check("opening", step="add")

# %% [markdown]
# #### When it is wrong
#
# 1. Read the first sentence: where one line is to blame, it names it. The check shows what came back beside what was expected, wrong elements in red.
# 2. Say what the wrong elements have in common: one row, one tile, the last column, every eighth? That is most of the answer.
# 3. Put `print("at", at)` into the function and run the check again: it shows what program 0 held, up to 40 lines. Prints cost nothing.
# 4. `show_values("opening", step="add")` shows numbers: got, expected, difference.
# 5. A shape that surprises you is usually a missing `[:, None]` or `[None, :]`. Print it.
# 6. Make it smaller: one program, one tile, no tail. When that is right, bring the rest back, one thing at a time.
# 7. Compute one wrong element by hand, with its row and column, and compare with what you printed.
# 8. If the result is right but the check complains about memory, a mask is missing where it does not change the result.
# 9. Change one thing, then check. After two changes at once you do not know which one mattered.
# 10. Still stuck? "Where to look" can be unfolded at any time; from the third try on the check opens it for you and says more.

# %% [markdown] lang="zh"
# #### 出错了怎么办
#
# 1. 先看第一句：能归到某一行时，它会指出来；检查还会把算出的结果和正确结果并排画出来，红底的是错的元素。
# 2. 看看错的元素有什么共同点：同一行、同一个 tile、最后一列、每隔八个？答案多半就在这里。
# 3. 在函数里写一行 `print("at", at)`，再运行检查：它会显示 0 号程序里的值，最多 40 行。打印不影响评分。
# 4. `show_values("opening", step="add")` 直接列出数字：算出的、应有的、相差多少。
# 5. 形状和预想的不一样，多半是少了 `[:, None]` 或 `[None, :]`。打印出来看看。
# 6. 把问题缩小：一个程序、一个 tile、没有余数。先让它对，再一样一样加回去。
# 7. 挑一个错的元素，按它的行和列手算一遍，再和打印的值比较。
# 8. 结果对了，检查却报内存错误：少了一个 mask，只是没有影响到结果。
# 9. 一次只改一处，改完就检查。同时改两处，什么也说明不了。
# 10. 还是不行：“看哪里”随时可以展开；从第三次起，检查会自动展开它，也说得更具体。

# %% [markdown]
# ### Warm-up 2: a mask
#
# A size is seldom a multiple of the tile. `triton.cdiv(n, BLOCK)` programs are enough, and the last of them reaches beyond
# the end. The elements of a tile are its **lanes**. A **mask**, a tile of true and false, switches some of them off:
# `tl.load(ptrs, mask=at < n, other=0.0)` gives `other` there and reads nothing, `tl.store(ptrs, x, mask=at < n)` writes nothing.
# Without `other`, the value there is undefined; always give `other`, unless those lanes are never used again.
#
# Forget the mask and you read memory outside the tensor. A GPU rarely notices; the checks here do, and tell you the line.

# %% [markdown] lang="zh"
# ### 练习 2：mask
#
# 大小很少能正好被 tile 整除。启动 `triton.cdiv(n, BLOCK)` 个程序就够了，其中最后一个会超出末尾。tile 里的每个位置叫一个 **lane**。
# **mask** 是由真假值组成的 tile，用来关掉其中一些 lane：`tl.load(ptrs, mask=at < n, other=0.0)` 在关掉的位置给出 `other`，不读内存；
# `tl.store(ptrs, x, mask=at < n)` 在那里什么也不写。不写 `other` 的话，load 在那里给出什么是未定义的；除非那些 lane 以后不再使用，否则都要写上。
#
# 忘了加 mask，读到的就是别人的内存。GPU 很少会察觉；这里的检查会，并且告诉你是哪一行。

# %% solution="opening_step_mask"
@triton.jit
def add_masked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y for n elements, which may end inside the last program's tile."""
    ### BEGIN SOLUTION
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x + y, mask=at < n)
    ### END SOLUTION

# %% test="opening_step_mask_check"
check("opening", step="mask")

# %% [markdown]
# ### Warm-up 3: a tile with strides
#
# Memory has one dimension. A matrix has two, and a **stride** for each: the distance between neighbours along that axis, in elements.
# As in PyTorch:

# %% [markdown] lang="zh"
# ### 练习 3：带 stride 的 tile
#
# 内存只有一维。矩阵有两维，每一维各有一个 **stride**：沿这个轴相邻的两个元素隔多远，以元素为单位。和 PyTorch 一样：

# %%
x = torch.arange(24).view(4, 6)
print(x.stride(), x.t().stride(), x[:, ::2].stride())

# %% [markdown]
# Two ranges make a tile by broadcasting, as in PyTorch too: `rows[:, None]` goes down, `columns[None, :]` goes across, and
# their sum is two-dimensional. Here `rows` and `columns` are tiles of row and column numbers, given to you.
# Element `(rows[i], columns[j])` of the matrix lies at `rows[i] * stride_row + columns[j] * stride_column`.

# %% [markdown] lang="zh"
# 两个 range 通过广播组成一个 tile，这也和 PyTorch 一样：`rows[:, None]` 向下排，`columns[None, :]` 向右排，两者之和是二维的。
# 这里的 `rows` 和 `columns` 分别是由行号和列号组成的 tile，已经给好了。
# 矩阵的元素 `(rows[i], columns[j])` 位于 `rows[i] * stride_row + columns[j] * stride_column`。

# %% solution="opening_step_tile"
@triton.jit
def load_strided(ptr, rows, columns, stride_row, stride_column):
    """The tile [len(rows), len(columns)] of a matrix."""
    ### BEGIN SOLUTION
    return tl.load(ptr + rows[:, None] * stride_row + columns[None, :] * stride_column)
    ### END SOLUTION

# %% test="opening_step_tile_check"
check("opening", step="tile")

# %% [markdown]
# ### Warm-up 4: two masks
#
# Each axis has its own end. `rows < row_count` is a mask for the rows, `columns < column_count` one for the columns. Spread
# them like the offsets, and join them with `&`, which binds more tightly than `<`: comparisons need their brackets.

# %% [markdown] lang="zh"
# ### 练习 4：两个 mask
#
# 每个轴都有自己的末尾。`rows < row_count` 是行的 mask，`columns < column_count` 是列的 mask。像偏移量那样把它们展开成二维，
# 再用 `&` 合起来；它的优先级高于 `<`，所以比较式必须加括号。

# %% solution="opening_step_masks"
@triton.jit
def load_tile(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """load_strided, with zeros for rows from row_count on and for columns from column_count on."""
    ### BEGIN SOLUTION
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    at = rows[:, None] * stride_row + columns[None, :] * stride_column
    return tl.load(ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="opening_step_masks_check"
check("opening", step="masks")

# %% [markdown]
# ### Warm-up 5: transpose
#
# Now a whole kernel in two dimensions. The grid has two axes: `tl.program_id(0)` is the number of the tile down the rows,
# `tl.program_id(1)` across the columns. A tile is `BLOCK` x `BLOCK`.
#
# Load the tile of $x$ with your `load_tile`; store it so that element $(m, n)$ of $x$ becomes element $(n, m)$ of $y$.
# $y$ is $[N, M]$ and lies row by row, so its element $(n, m)$ is at `n * M + m`.

# %% [markdown] lang="zh"
# ### 练习 5：转置
#
# 现在写一个完整的二维 kernel。grid 有两个轴：`tl.program_id(0)` 是 tile 竖着数的编号（对应行），`tl.program_id(1)` 是横着数的编号（对应列）。
# 一个 tile 的大小是 `BLOCK` x `BLOCK`。
#
# 用你的 `load_tile` 读入 $x$ 的 tile；写出时，让 $x$ 的元素 $(m, n)$ 成为 $y$ 的元素 $(n, m)$。
# $y$ 的形状是 $[N, M]$，逐行存放，所以它的元素 $(n, m)$ 位于 `n * M + m`。

# %% solution="opening_step_transpose"
@triton.jit
def transpose(x_ptr, y_ptr, M, N, stride_row, stride_column, BLOCK: tl.constexpr):
    """y = x.T for x [M, N] with any strides and y [N, M], row by row."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = load_tile(x_ptr, rows, columns, M, N, stride_row, stride_column)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + columns[None, :] * M + rows[:, None], tile, mask=inside)
    ### END SOLUTION

# %% test="opening_step_transpose_check"
check("opening", step="transpose")

# %% [markdown]
# ## 3. Quantisation: fewer bits for a number
#
# First the floating-point formats. **fp16** has eleven significant bits and ends at 65504; **bf16** has the range of fp32 and eight
# significant bits. A result beyond the end of its type is an **overflow**: a float becomes inf, an integer sum wraps around to the
# other end. What a float becomes that is converted to an integer type too small for it is undefined, so clamp it first. In these labs
# activations are fp16, and sums are kept in fp32 or int32.
#
# Now fewer bits. Take a row of numbers. Find a **scale** $s$ that maps the largest of them to the largest integer, then round:
#
# $$q = \mathrm{clamp}\big(\mathrm{round}(x / s),\ -128,\ 127\big), \qquad s = \max|x| / 127, \qquad x \approx s\,q$$
#
# For int4 the bounds are $-8$ and $7$, and $s = \max|x| / 7$.
#
# This is called *symmetric*. *Affine* quantisation has a second number, the **zero point** $z$: $x \approx s\,(q - z)$. It wastes no
# levels on a row whose values lie on one side of zero, and zero stays exact, since $z$ is an integer. But in a product each $z$
# leaves a term to subtract, $\sum_k (q_k - z)\,r_k = \sum_k q_k r_k - z \sum_k r_k$. Symmetric means $z = 0$: no such term.

# %% [markdown] lang="zh"
# ## 3. 量化：用更少的位表示一个数
#
# 先说浮点格式。**fp16** 有 11 位有效位，最大到 65504；**bf16** 的范围与 fp32 一样大，有效位是 8 位。
# 结果超出类型的范围，就是**溢出**（overflow）：浮点数变成 inf，整数的和则回绕到另一端。把浮点数转换成放不下它的整数类型，结果没有定义，
# 所以要先钳位。在这几个实验里，激活是 fp16，求和用 fp32 或 int32。
#
# 再看更少的位。取一行数，找一个 **scale** $s$，使其中最大的数正好对上最大的整数，然后就近取整：
#
# $$q = \mathrm{clamp}\big(\mathrm{round}(x / s),\ -128,\ 127\big), \qquad s = \max|x| / 127, \qquad x \approx s\,q$$
#
# int4 的上下界是 $-8$ 和 $7$，$s = \max|x| / 7$。
#
# 这叫**对称量化**。**仿射量化**（affine）还有第二个数，即**零点** $z$：$x \approx s\,(q - z)$。
# 如果一行的值都在零的同一侧，它不会浪费量化级；零同样能精确表示，因为 $z$ 是整数。但在乘积里，
# 每个 $z$ 都会多出一项要减掉：$\sum_k (q_k - z)\,r_k = \sum_k q_k r_k - z \sum_k r_k$。
# 对称就是 $z = 0$：没有这一项。

# %%
torch.manual_seed(1)
row = torch.randn(512)
pictures.quantisation(row, float(row.abs().max() / 127), name="a well-behaved row")

# %% [markdown]
# Now one value is thirty times as large as the average. It sets the scale for all of them:

# %% [markdown] lang="zh"
# 现在，其中一个值是平均大小的三十倍，所有值的 scale 都由它决定：

# %%
row[100] = 30 * row.abs().mean()
pictures.quantisation(row, float(row.abs().max() / 127), name="one outlier")

# %% [markdown]
# The other values now share a few levels in the middle. This is why it matters **who shares a scale**: the whole matrix
# (**per tensor**), a row, or less. One outlier spoils the values that share its scale, and no others.
#
# Weights are quantised once, before the model runs. For activations there are three ways:
#
# - leave them in fp16: **weight-only** quantisation (`w4a16`);
# - find their scales while the model runs, from the values themselves: **dynamic** quantisation (`w8a8`);
# - fix their scales beforehand, from sample inputs: **static** quantisation. Finding such scales is called **calibration**.
#
# How much a model suffers is measured on the model: by its accuracy, or, for a language model, by its **perplexity**, the exponential
# of its average loss per token. In these labs a kernel only has to compute exactly what the format says.
#
# ### A loop, and a reduction
#
# A row may be longer than a tile. So a program loops along it and keeps its result so far in another tile. This one adds up rows:

# %% [markdown] lang="zh"
# 其余的值只能挤在中间的几个量化级里。所以，**哪些值共用一个 scale** 很关键：整个矩阵（**逐张量**，per tensor）、一行，还是更小的范围。
# 一个离群值只会连累与它共用 scale 的值，不影响其他值。
#
# 权重只量化一次，在模型运行之前。激活有三种做法：
#
# - 保持 fp16：**只量化权重**（weight-only，`w4a16`）；
# - 在模型运行时，由实际的值求出 scale：**动态量化**（dynamic，`w8a8`）；
# - 事先用样本输入把 scale 定下来：**静态量化**（static）。求这些 scale 的过程叫作**校准**（calibration）。
#
# 模型因此变差多少，要在模型上测：看它的准确率；语言模型则看**困惑度**（perplexity），即每个 token 平均损失的指数。
# 而这里的 kernel 要做的，是把格式规定的结果算出来，而且分毫不差。
#
# ### 循环与归约
#
# 一行可能比一个 tile 长。于是程序沿着这一行走过去，把到目前为止的结果存在自己的一个 tile 里。下面这个 kernel 对各行求和：

# %%
from grader.notebook import needs

needs("opening", "masks")  # load_tile


@triton.jit
def row_sums(
    x_ptr, sum_ptr, M, K, stride_row, stride_column, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        tile = load_tile(x_ptr, rows, k + tl.arange(0, BLOCK_K), M, K, stride_row, stride_column)
        total += tl.sum(tile.to(tl.float32), axis=1)  # [BLOCK_M, BLOCK_K] -> [BLOCK_M]
    tl.store(sum_ptr + rows, total, mask=rows < M)


x = torch.ones(20, 100, device=device).half()
sums = torch.empty(20, device=device)
row_sums[(2,)](x, sums, 20, 100, *x.stride(), BLOCK_M=16, BLOCK_K=32)
print(sums)

# %% [markdown]
# ### Warm-up 6: the scales of a row
#
# Your turn: the kernel that finds the scales of activations. `tl.abs`, `tl.max(tile, axis=1)` and `tl.maximum(a, b)` are what
# you need. A row of zeros gets the scale 1, since the next step divides by it: `tl.where(condition, a, b)`.

# %% [markdown] lang="zh"
# ### 练习 6：一行的 scale
#
# 轮到你了：写出求激活 scale 的 kernel。你需要的是 `tl.abs`、`tl.max(tile, axis=1)` 和 `tl.maximum(a, b)`。
# 全零的行 scale 取 1，因为后面要除以它：`tl.where(condition, a, b)`。

# %% solution="opening_step_scales"
@triton.jit
def row_scales(
    x_ptr, scale_ptr, M, K, stride_row, stride_column, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """scale[m] = max |x[m, :]| / 127, fp32; 1 for a row of zeros. x is fp16 [M, K].

    Each program has BLOCK_M rows.
    """
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    largest = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        tile = load_tile(x_ptr, rows, k + tl.arange(0, BLOCK_K), M, K, stride_row, stride_column)
        largest = tl.maximum(largest, tl.max(tl.abs(tile.to(tl.float32)), axis=1))
    tl.store(scale_ptr + rows, tl.where(largest > 0, largest / 127, 1.0), mask=rows < M)
    ### END SOLUTION

# %% test="opening_step_scales_check"
check("opening", step="scales")

# %% [markdown]
# ## 4. Which scales work in a matrix product
#
# Suppose each element of $X$ and $W$ had a scale of its own, $x_{mk} = s_{mk}\,q_{mk}$ and $w_{nk} = t_{nk}\,r_{nk}$:
#
# $$y_{mn} = \sum_k s_{mk}\,t_{nk}\; q_{mk}\,r_{nk}$$
#
# The tensor cores can add up the integers $q\,r$, and do nothing else along the way.
# So the scales have to leave the sum. They can, if they do not depend on $k$:
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}$$
#
# - one scale for all of $X$ or $W$ (**per tensor**) works;
# - one scale for each row of $X$ (**per token**) works;
# - one for each row of $W$ (**per output channel**) works;
# - one for each column of $X$ (per *input* channel) does not: it varies along $k$ and stays inside.
#
# In between is one scale for each **group** of, say, 128 neighbours along $k$. It can leave the sum over its group, but not the whole
# sum: each group's sum is scaled and added to an fp32 accumulator. That costs a multiplication for every element and group, and an
# outlier spoils 128 values instead of a row. Formats with int4 weights often use groups; these three labs do not.
#
# Which elements share a scale, on a small $X$ (a row for each token) and a small $W$ (a row for each output channel); equal numbers
# share one:

# %% [markdown] lang="zh"
# ## 4. 矩阵乘法容得下哪些 scale
#
# 假设 $X$ 和 $W$ 的每个元素都有自己的 scale，即 $x_{mk} = s_{mk}\,q_{mk}$、$w_{nk} = t_{nk}\,r_{nk}$：
#
# $$y_{mn} = \sum_k s_{mk}\,t_{nk}\; q_{mk}\,r_{nk}$$
#
# Tensor Core 能把整数 $q\,r$ 累加起来，中途做不了别的事。所以 scale 必须提到求和号外面。只要它们不依赖 $k$，就能提出来：
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}$$
#
# - 整个 $X$ 或 $W$ 一个 scale（**逐张量**，per tensor），可以；
# - $X$ 的每一行一个 scale（**逐 token**，per token），可以；
# - $W$ 的每一行一个 scale（**逐输出通道**，per output channel），可以；
# - $X$ 的每一列一个 scale（逐**输入**通道，per input channel），不行：它沿 $k$ 变化，只能留在求和号里面。
#
# 介于两者之间的，是沿 $k$ 每一**组**（group，例如相邻的 128 个元素）一个 scale。它能提到本组的求和之外，提不到整个求和之外：
# 每一组的和先乘 scale，再加到 fp32 累加器上。代价是每个元素、每一组都要多做一次乘法；而一个离群值只连累 128 个值，不是一整行。
# int4 权重的格式常常这样做；这三个实验不用。
#
# 哪些元素共用一个 scale？下面用一个小的 $X$（一行一个 token）和一个小的 $W$（一行一个输出通道）画出来，数字相同的共用一个：

# %%
row, column = torch.arange(4)[:, None], torch.arange(6)[None, :]
pictures.shared_scales({
    "X, per tensor": 0 * row + 0 * column,
    "X, per token": row + 0 * column,
    "W, per output channel": row + 0 * column,
    "W, groups of 3": 2 * row + column // 3,
    "X, per input channel": 0 * row + column,
})

# %% [markdown]
# A scale can leave the sum if its number does not change along a row, for the sum runs along the rows of both. The first three
# pass; in groups of 3 it leaves two sums of three; per input channel it does not leave at all.
#
# Multiplying by $s_m\,t_n$ happens once per element, while the sum is still in registers, before the store. Doing so within the
# kernel, instead of in another one that reads $Y$ again, is called **fusion**. Is the result the same as when you scale first?

# %% [markdown] lang="zh"
# 求和沿着两个矩阵的行进行，所以一行里数字不变，scale 才提得出来。前三种都可以；每 3 个一组时，它提到两个三项的和之外；
# 逐输入通道时，怎么也提不出来。
#
# 乘 $s_m\,t_n$ 这一步，每个元素只做一次，趁求和结果还在寄存器里，在 store 之前。把它放在同一个 kernel 里，
# 而不是让另一个 kernel 再把 $Y$ 读一遍，叫作**融合**（fusion）。这和先乘 scale 的结果一样吗？

# %%
q, r = torch.randint(-127, 128, (4, 64)).double(), torch.randint(-127, 128, (3, 64)).double()
s, t = torch.rand(4).double(), torch.rand(3).double()
inside = (s[:, None] * q) @ (t[:, None] * r).T
outside = s[:, None] * t[None, :] * (q @ r.T)
print(f"largest difference: {float((inside - outside).abs().max()):.0e}, which is fp64 rounding")

# %% [markdown]
# ## 5. Four bits: eight weights to a word
#
# PyTorch has a dtype `torch.int4`, but no operations on it. So eight neighbours along $K$ share one int32 word, the first in the
# lowest four bits. Four bits hold 16 patterns, and they stand for $-8$ to $7$: a pattern above 7 stands for its value minus 16.

# %% [markdown] lang="zh"
# ## 5. 四位：八个权重拼成一个 32 位字
#
# PyTorch 有 `torch.int4` 这个 dtype，却没有它的运算。所以沿 $K$ 相邻的八个数共用一个 int32 字，第一个放在最低的四位。
# 四位共有 16 种位模式，表示 $-8$ 到 $7$：大于 7 的位模式，要**减去 16** 才是它的值。

# %%
values = torch.tensor([3, -1, 7, -8, 0, 5, -4, 1])
word = sum((int(v) & 0xF) << (4 * i) for i, v in enumerate(values))
pictures.int4_word(word)

# %% [markdown]
# ### Warm-up 7: pack
#
# The cell above did it with Python integers; do it with a tile. `q` is `[words, 8]`: row `i` becomes word `i`.
# You need `&`, `<<`, `tl.arange(0, 8)` spread over the rows, and `tl.sum(..., axis=1)`.

# %% [markdown] lang="zh"
# ### 练习 7：打包
#
# 上面的单元用 Python 的整数做了一遍；现在用 tile 来做。`q` 是 `[words, 8]`：第 `i` 行变成第 `i` 个字。
# 你需要 `&`、`<<`、广播到每一行的 `tl.arange(0, 8)`，以及 `tl.sum(..., axis=1)`。

# %% solution="opening_step_pack"
@triton.jit
def pack(q):
    """int32 [words, 8], values -8 to 7 -> int32 [words]; element i in bits 4 * i to 4 * i + 3."""
    ### BEGIN SOLUTION
    return tl.sum((q & 0xF) << (4 * tl.arange(0, 8))[None, :], axis=1)
    ### END SOLUTION

# %% test="opening_step_pack_check"
check("opening", step="pack")

# %% [markdown]
# ### Warm-up 8: unpack
#
# And back. `(word >> 4 * i) & 0xF` gives 0 to 15: the sign is lost. Shift element `i` *left* first, until its top bit is the
# word's top bit, then right by 28. On a signed integer `>>` copies the sign bit.

# %% [markdown] lang="zh"
# ### 练习 8：拆包
#
# 再拆回来。`(word >> 4 * i) & 0xF` 得到的是 0 到 15：符号丢了。应当先把第 `i` 个元素**左**移，使它的最高位到达字的最高位，
# 再右移 28 位。对有符号整数，`>>` 会复制符号位。

# %% solution="opening_step_unpack"
@triton.jit
def unpack(words):
    """int32 [words] -> int32 [words, 8], values -8 to 7: the inverse of pack."""
    ### BEGIN SOLUTION
    return (words[:, None] << (28 - 4 * tl.arange(0, 8))[None, :]) >> 28
    ### END SOLUTION

# %% test="opening_step_unpack_check"
check("opening", step="unpack")

# %% [markdown]
# ## 6. Sparsity: skip what is zero
#
# A single zero saves nothing in a dense product: tensor cores multiply whole tiles. (Recent ones have a mode for 2:4 sparsity: at
# least two of every four neighbours are zero; more zeros save nothing more.) So here weights are pruned in **blocks** of 32 x 32. The
# rest is stored as BSR, *block sparse row*:
#
# - `values`: the blocks that are left, one after another;
# - `col_indices`: the block column of each;
# - `crow_indices`: where each block row begins. Row `r` owns the blocks from `crow[r]` up to, but not including, `crow[r + 1]`.

# %% [markdown] lang="zh"
# ## 6. 稀疏：跳过零
#
# 在稠密乘法里，单个的零什么也省不下来：Tensor Core 乘的是整个 tile。（较新的 Tensor Core 有 2:4 稀疏模式：每四个相邻元素里至少有两个零，
# 零再多也不会更快。）所以这里按 32 x 32 的**块**给权重剪枝。剩下的用 BSR（*block sparse row*）格式存放：
#
# - `values`：留下来的块，一个接一个；
# - `col_indices`：每个块的块列号；
# - `crow_indices`：每个块行从哪里开始。块行 `r` 拥有从 `crow[r]` 到 `crow[r + 1]` 的块，不含后者。

# %%
present = torch.rand(8, 8, generator=torch.Generator().manual_seed(3)) < 0.25
present[2] = False
crow = torch.cat([torch.zeros(1, dtype=torch.long), present.sum(1).cumsum(0)])
print("crow_indices:", crow.tolist())
print("empty block rows:", (crow.diff() == 0).nonzero()[:, 0].tolist())
pictures.bsr_pattern(crow, present.nonzero()[:, 1], 256)

# %% [markdown]
# If a block row is empty, its two numbers are equal. That needs no special case: the loop just runs zero times.
#
# ### Warm-up 9: a sparse matrix times a vector
#
# Program `r` owns block row `r`: `BLOCK` elements of $y$. It loads `crow_indices[r]` and `crow_indices[r + 1]`, each a single
# number: `tl.load(crow_indices_ptr + r)`. For each block `b` between them it loads
#
# - the block, `BLOCK` x `BLOCK` numbers row by row, from `values_ptr + b * BLOCK * BLOCK` on;
# - `BLOCK` elements of $x$, from `BLOCK * col_indices[b]` on;
#
# and adds up `tl.sum(block * x[None, :], axis=1)`. Sizes fit, so no masks.

# %% [markdown] lang="zh"
# 空的块行，它的两个数相等。不需要特殊处理，不过是一个执行零次的循环。
#
# ### 练习 9：稀疏矩阵乘向量
#
# 程序 `r` 负责块行 `r`，即 $y$ 的 `BLOCK` 个元素。它读入 `crow_indices[r]` 和 `crow_indices[r + 1]`，各是单个的数：`tl.load(crow_indices_ptr + r)`。
# 对两者之间的每个块 `b`，它读入
#
# - 这个块，即 `BLOCK` x `BLOCK` 个数，逐行存放，从 `values_ptr + b * BLOCK * BLOCK` 开始；
# - $x$ 的 `BLOCK` 个元素，从 `BLOCK * col_indices[b]` 开始；
#
# 再把 `tl.sum(block * x[None, :], axis=1)` 累加起来。大小都能整除，所以不需要 mask。

# %% solution="opening_step_bsr"
@triton.jit
def sparse_times_vector(
    values_ptr, crow_indices_ptr, col_indices_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr
):
    """y = W x for W in BSR and fp32 vectors x and y; each program makes one block row."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    inner = tl.arange(0, BLOCK)
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    for b in range(tl.load(crow_indices_ptr + row), tl.load(crow_indices_ptr + row + 1)):
        block = tl.load(values_ptr + b * BLOCK * BLOCK + inner[:, None] * BLOCK + inner[None, :])
        x = tl.load(x_ptr + tl.load(col_indices_ptr + b) * BLOCK + inner)
        y += tl.sum(block * x[None, :], axis=1)
    tl.store(y_ptr + row * BLOCK + inner, y)
    ### END SOLUTION

# %% test="opening_step_bsr_check"
check("opening", step="bsr")

# %% [markdown]
# ## 7. A matrix product
#
# A program owns one tile of $Y$. It loops along $K$, multiplies two tiles with `tl.dot`, and accumulates in fp32. All three labs have
# this structure; only what happens between load and dot differs.
#
# ### Warm-up 10: the product
#
# 1. *Which tile?* The grid has one axis here, and counts tiles row by row. With `tiles_n = tl.cdiv(N, BLOCK_N)` tiles in a row of
#    tiles, program `pid` computes the tile in tile row `pid // tiles_n` and tile column `pid % tiles_n`. These give `rows` and `columns`.
# 2. *The sum* begins as `tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)`.
# 3. *The loop* has `depth = k + tl.arange(0, BLOCK_K)`. The tile of $X$ is `load_tile` with `rows` and `depth`. The tile of $W$ must be
#    `[BLOCK_K, BLOCK_N]`, and $W$ is stored as $[N, K]$: element $(k, n)$ of its transpose lies at `k + n * K`, so the
#    strides are 1 and `K`. Then `acc = tl.dot(x, w, acc)`.
# 4. *The store*: `acc.to(tl.float16)`, at `rows[:, None] * N + columns[None, :]`, with a mask for both ends.
#
# $X$, $W$ and $Y$ lie row by row. Tails: `load_tile` gives zeros beyond an end, and zeros add nothing to a sum.

# %% [markdown] lang="zh"
# ## 7. 矩阵乘法
#
# 一个程序负责 $Y$ 的一个 tile。它沿 $K$ 前进，用 `tl.dot` 把两个 tile 相乘，用 fp32 累加。
# 三个实验都是这个结构，不同的只是 load 与 dot 之间做什么。
#
# ### 练习 10：矩阵乘
#
# 1. **哪个 tile？** 这里的 grid 只有一个轴，逐行给 tile 编号。一行有 `tiles_n = tl.cdiv(N, BLOCK_N)` 个 tile，所以程序 `pid` 的 tile 行号是 `pid // tiles_n`，tile 列号是 `pid % tiles_n`。由此得出 `rows` 和 `columns`。
# 2. **累加器**的初值是 `tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)`。
# 3. **循环**里有 `depth = k + tl.arange(0, BLOCK_K)`。$X$ 的 tile 由 `load_tile` 读入，行列用 `rows` 和 `depth`。$W$ 的 tile 必须是 `[BLOCK_K, BLOCK_N]`，而 $W$ 按 $[N, K]$ 存放：它的转置的元素 $(k, n)$ 位于 `k + n * K`，所以两个 stride 是 1 和 `K`。然后 `acc = tl.dot(x, w, acc)`。
# 4. **写出** `acc.to(tl.float16)`，位置是 `rows[:, None] * N + columns[None, :]`，mask 要管住两个轴的末尾。
#
# $X$、$W$ 和 $Y$ 都逐行存放。不满一个 tile 的尾部：超出末尾的地方 `load_tile` 给出零，而零不影响求和。

# %% solution="opening_step_product"
@triton.jit
def multiply(
    x_ptr, w_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """y = x @ w.T for x fp16 [M, K], w fp16 [N, K] and y fp16 [M, N], all of them row by row."""
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = load_tile(x_ptr, rows, depth, M, K, K, 1)
        w = load_tile(w_ptr, depth, columns, K, N, 1, K)
        acc = tl.dot(x, w, acc)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], acc.to(tl.float16), mask=inside)
    ### END SOLUTION

# %% test="opening_step_product_check"
check("opening", step="product")

# %% [markdown]
# This is a real kernel. Launch it yourself, with one program per tile:

# %% [markdown] lang="zh"
# 这是一个真正的 kernel。自己启动它试试，每个 tile 一个程序：

# %%
needs("opening", "masks")  # load_tile
needs("opening", "product", right=False)  # multiply, right or wrong

M, N, K = 40, 48, 100
x, w = (torch.randn(size, K, device=device).half() for size in (M, N))
y = torch.empty(M, N, dtype=torch.float16, device=device)
programs = triton.cdiv(M, 16) * triton.cdiv(N, 16)
multiply[(programs,)](x, w, y, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32)
print(f"largest error: {float((y.double() - x.double() @ w.double().T).abs().max()):.4f}")

# %% [markdown]
# Try it: let `range` begin at `BLOCK_K`, or leave `acc` out of `tl.dot`, and look at the error. The check names both.
#
# ### Configs
#
# Tile sizes decide the speed, and nobody can guess the best ones. So a kernel has a list of them,
# `@triton.autotune(configs=[triton.Config({"BLOCK_M": 64, ...}, num_warps=4, num_stages=3), ...], key=[...])`,
# and Triton times them all. `num_warps` is how many groups of 32 threads share a tile. With `num_stages=3` the loads of a loop
# run up to two iterations ahead of the products: `num_stages - 1` tiles are on their way while one is multiplied.
#
# ### On to the labs
#
# `w8a8`, `w4a16`, `dds`, in this order. Each kernel is built from small steps like these, and each step has a check, such as
# `check("w8a8", step="load")`. The answers come from the grader itself: same code, same tests. `make grade` in a terminal grades
# everything you have saved.

# %% [markdown] lang="zh"
# 试一试：让 `range` 从 `BLOCK_K` 开始，或者在 `tl.dot` 里漏掉 `acc`，看看误差有多大。这两种错误，检查都会指出来。
#
# ### config
#
# 速度由 tile 的大小决定，而哪种大小最好，谁也猜不出来。所以 kernel
# 带着一张 config 列表，`@triton.autotune(configs=[triton.Config({"BLOCK_M": 64, ...}, num_warps=4, num_stages=3), ...], key=[...])`，
# 由 Triton 逐个计时。`num_warps` 是一个 tile 由几组线程分担，每组 32 个线程。`num_stages=3` 时，循环里的读取最多比乘法提前两轮：
# 一个 tile 正在相乘，同时有 `num_stages - 1` 个 tile 正在路上。
#
# ### 接下来做实验
#
# 依次做 `w8a8`、`w4a16`、`dds`。每个实验都由这样的小步组成，最后再拼起来；每一步之后都有一个单元，写着 `check("w8a8", step="load")`。
# 它的回答就来自评分程序：同样的代码，同样的测试。在终端里运行 `make grade SUBMISSION=notebooks/zh`，会给你保存过的所有内容评分。
