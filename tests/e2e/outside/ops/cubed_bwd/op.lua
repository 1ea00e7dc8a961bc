-- SPDX-License-Identifier: Apache-2.0
return op.map {
    doc = "dx of cubed",
    y = "dy * (3 * x * x + 1)",
    inputs = { "dy", "x" },
    backward = false,
}
