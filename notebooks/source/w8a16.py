# %% [markdown]
# # W8A16: fp16 x fp16 matrix product
#
# $$Y = X W$$
#
# **Your kernel**, `W8A16_MM`, multiplies fp16 by fp16 into an fp32 accumulator, tile by tile, and stores fp16.

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## The kernel

# %% solution="w8a16_kernel"
# include solutions/w8a16.py: CONFIGS .. Linear_w8a16

# %% test="w8a16_correctness" points=60
check("w8a16")

# %% [markdown]
# ## How fast is it?

# %% test="w8a16_speed" points=40
check_speed("w8a16")
