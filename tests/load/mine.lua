-- SPDX-License-Identifier: Apache-2.0
return op {
    doc = "a step along a moment",
    role = "optimizer",
    fields = {
        { "beta", "number", min = 0, below = 1, default = 0.9 },
        { "sign", "bool", default = false },
    },
    moments = 1,
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "moment1", "e", class = "moments" }, { "grad", "e", class = "grad" },
    },
    attrs = { beta = "number", sign = "bool" },
    outputs = {},
    axes = { e = "parallel" },
}
