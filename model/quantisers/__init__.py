"""Ways of quantising a linear layer Y = X W^T, a page each: X [M, K] one row a token, W [N, K] one row an output channel.

Each page gives formula and source, and is tested against its definition. Numbers stay in fp32 and only take the values that
the format has ("fake quantisation"): what it costs in quality is exact, and what it gains in time is the labs' business.
"""
