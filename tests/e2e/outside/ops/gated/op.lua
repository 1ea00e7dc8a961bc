-- SPDX-License-Identifier: Apache-2.0
-- gated: a residual whose branch x passes a gate, g, and a weight for each feature.
return op.map {
    doc = "y = r + x sigmoid(g) w",
    y = "r + x * sigmoid(g) * w[d]",
}
