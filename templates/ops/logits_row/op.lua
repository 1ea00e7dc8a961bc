-- SPDX-License-Identifier: Apache-2.0
-- logits_row: the logits of one token, to sample from. Used if all logits are in
-- memory; then the forward has made the loss already.
return op {
    evaluates = "cross_entropy",
    arithmetic = 1,
    doc = "next_logits = logits[row]",
    inputs = { { "logits", "t v" }, { "row", "1", class = "i32" } },
    outputs = { { "next_logits", "v", dtype = "logits" } },
    axes = { v = "parallel" },
    flops = function(n) return 0 end,
    bytes = function(n) return 4 + 2 * 4 * n.v end, -- the row that is read
    reference = function(n)
        for j = 1, n.v do n.next_logits[j] = n.logits[n.row[1] * n.v + j] end
    end,
    cases = function(r)
        return {
            t = r(1, 20), v = r(1, 90),
            inputs = function(n, r) return { row = { r(0, n.t - 1) } } end,
        }
    end,
}
