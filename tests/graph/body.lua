    local x = b:block("embed", "embed", "", function(g) return embed(g, m) end)
    x = b:block("layers.0", "layer", "l0.", function(g, y) return layer(g, m, y) end, x)
    b:block("head", "head", "", function(g, y) return head(g, m, y) end, x)
