-- SPDX-License-Identifier: Apache-2.0
-- Llama 3: one <|begin_of_text|>, then of each message its role between header tokens, an
-- empty line, the text without the white space around it, <|eot_id|>. What the assistant
-- says, and that it ends there, is to be predicted.
return function(messages)
    local parts = { token "<|begin_of_text|>" }
    for _, m in ipairs(messages) do
        local said = m.role == "assistant" and target or function(part) return part end
        for _, part in ipairs {
            token "<|start_header_id|>", m.role, token "<|end_header_id|>", "\n\n",
            said(trim(m.content)), said(token "<|eot_id|>"),
        } do
            parts[#parts + 1] = part
        end
    end
    return parts
end
