# %% [markdown]
# # GPTQ: fp16 x fp16 matrix product
#
# $$Y = X W$$
#
# **Your kernel**, `GPTQ_MM`, multiplies fp16 by fp16 into an fp32 accumulator, tile by tile, and stores fp16.

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## The kernel

# %% solution="gptq_kernel"
# include solutions/gptq.py: CONFIGS .. Linear_gptq

# %% test="gptq_correctness" points=60
check("gptq")

# %% [markdown]
# ## How fast is it?

# %% test="gptq_speed" points=40
check_speed("gptq")
