-- SPDX-License-Identifier: Apache-2.0
-- ChatML, in the form of Qwen: <|im_start|>ROLE, a line's end, the message, <|im_end|>, a
-- line's end. What the assistant says, and that it ends there, is to be predicted.
return function(messages)
    local parts = {}
    for _, m in ipairs(messages) do
        local said = m.role == "assistant" and target or function(part) return part end
        for _, part in ipairs {
            token "<|im_start|>", m.role, "\n",
            said(m.content), said(token "<|im_end|>"), "\n",
        } do
            parts[#parts + 1] = part
        end
    end
    return parts
end
