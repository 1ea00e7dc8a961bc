-- SPDX-License-Identifier: Apache-2.0
-- machines.lua: datasheets of GPUs, nodes and fabrics, for budgets and predicted times. In: names of
-- a GPU, a node and a fabric; rows that a user adds, in a file of --machines. Out: a GPU's row; one
-- table of numbers for a node and a fabric, which fields of target.network replace one by one.
-- Nothing here reaches the numerics hash.

-- GPUs by name: what to compile for; the bytes free on an idle one (less than printed on the box);
-- and attainable rates: TFLOP/s of bf16 products; GB/s from memory; GB/s from the other GPUs of a
-- machine; the dense bf16 TFLOP/s that the vendor states, for the MFU; TFLOP/s of the generated
-- attention, forward and backward; and streaming multiprocessors. Rates are for schedules, not
-- promises.
--
-- Products: 71 to 77 % of the stated peak on data-centre boards with HBM (on an H200, cuBLAS reached
-- 80 % at best), 55 % on an L40S, which its power limits. GeForce cards run above the clock of their
-- stated peak: torch.matmul of bf16, 4,096 to 10,240, reached 152 to 160 on an RTX 4090, 181 to 240 on
-- RTX 5090 (reports to github.com/zzc0721/torch-performance-test-data: issues 78, 96 and 124, pull
-- request 15; a fifth, issue 200, has 134 to 179). Memory: 83 to 88 % of the stated bandwidth. Links:
-- NCCL's measured 361 to 370 GB/s over NVLink 4 (nccl-tests, 8 x H200), in proportion elsewhere.
-- docs/sizing.md has the stated figures, where they are stated, and how they were checked.
-- Attention by mma.sync reaches at most 63 % of Hopper's peak, and was estimated from its
-- instructions at 250 to 290 forward, 170 to 190 backward on an H200; on other GPUs it is put in
-- proportion to their mma.sync peak. Measured since: 228 and 193 on an H100, heads of 64, 4,096
-- tokens; 262 and 169 on an H200, heads of 128. cuDNN's, on Hopper alone: NVIDIA's own table for 9.19 has
-- 591 and 474 at 4,096 tokens on an H200, with heads of 128 and sums in no fixed order; ours have one.
local gpus = {
    { "a100-40gb", arch = "sm_80", memory = "39.4GiB", rates = { 240, 1300, 230, 312, 130, 90, 108 } },
    { "a100-80gb", arch = "sm_80", memory = "79.1GiB", rates = { 240, 1700, 230, 312, 130, 90, 108 } },
    { "l40s", arch = "sm_89", memory = "44.4GiB", rates = { 200, 730, 20, 362, 120, 80, 142 } },
    { "rtx4090", arch = "sm_89", memory = "23.5GiB", rates = { 160, 850, 20, 165.2, 90, 60, 128 } },
    { "h100", arch = "sm_90a", memory = "79.1GiB", rates = { 720, 2800, 360, 989.4, 260, 175, 132 } },
    { "h200", arch = "sm_90a", memory = "139.8GiB", rates = { 740, 4200, 360, 989.4, 270, 180, 132 } },
    { "b200", arch = "sm_100a", memory = "178.3GiB", rates = { 1600, 6800, 700, 2250, 290, 195, 148 } },
    { "rtx5090", arch = "sm_120a", memory = "31.3GiB", rates = { 220, 1500, 40, 209.5, 115, 75, 170 } },
}
-- Measured in a step on an H200, heads of 128, 4,096 tokens; with heads of 64: 379 and 157.
local cudnn_rates = { attention = 438, attention_bwd = 228 }

local archs = { "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103",
                "sm_103a", "sm_120", "sm_120a", "sm_121", "sm_121a" }

-- NICs: attainable rates, 92 % of the line rate, which is what nccl-tests reached over four nodes
-- of 8 x H200 with 8 x 400 Gb/s (369 GB/s of 400 a node; stas00/ml-engineering). They are in
-- proportion for other NICs, and none was measured by us.
local attainable = 0.92

-- GB/s of a NIC of so many Gb/s.
local function nic(gbit)
    return gbit / 8 * attainable
end

-- A step of NCCL's ring, in microseconds: over NVLink, over PCIe, over a network (hwLat of its
-- src/graph/tuning.cc, ring, protocol Simple).
local nvlink_step, pcie_step, net_step = 3.4, 5.7, 9.6

-- Nodes by name: `gpu`, those that they are built with; `gpus` of a node; `domain`, how many GPUs
-- NVLink or PCIe joins, across nodes where it is more than a node has; `nics` of a node and GB/s of
-- each; `step`; `price`, dollars an hour of a node, where somebody states one; `fabric`, unless
-- another is named.
local nodes = {
    -- DGX A100: 8 GPUs on NVSwitch, 8 x ConnectX-6 of 200 Gb/s (its datasheet)
    { "hgx-a100", gpu = { "a100-40gb", "a100-80gb" }, gpus = 8, domain = 8, nics = 8,
      nic = nic(200), step = nvlink_step, fabric = "rail" },
    -- DGX H100, H200, B200: 8 GPUs on NVSwitch, 8 x ConnectX-7 of 400 Gb/s (their datasheets)
    { "hgx-h100", gpu = { "h100" }, gpus = 8, domain = 8, nics = 8, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    { "hgx-h200", gpu = { "h200" }, gpus = 8, domain = 8, nics = 8, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    { "hgx-b200", gpu = { "b200" }, gpus = 8, domain = 8, nics = 8, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    -- a compute tray of GB200 NVL72: 4 GPUs, 72 on NVSwitch in a rack, 4 x ConnectX-7 of 400 Gb/s
    { "gb200-nvl72", gpu = { "b200" }, gpus = 4, domain = 72, nics = 4, nic = nic(400),
      step = nvlink_step, fabric = "rail" },
    -- EC2 Capacity Blocks, prices of December 2024 (aws.amazon.com/ec2/capacityblocks/pricing):
    -- p4d.24xlarge, 400 Gb/s; p5.48xlarge and p5e.48xlarge, 3,200 Gb/s; in NICs of 100 Gb/s
    { "aws-p4d", gpu = { "a100-40gb" }, gpus = 8, domain = 8, nics = 4, nic = nic(100),
      step = nvlink_step, price = 14.75, fabric = "flat" },
    { "aws-p5", gpu = { "h100" }, gpus = 8, domain = 8, nics = 32, nic = nic(100),
      step = nvlink_step, price = 39.33, fabric = "flat" },
    { "aws-p5e", gpu = { "h200" }, gpus = 8, domain = 8, nics = 32, nic = nic(100),
      step = nvlink_step, price = 43.26, fabric = "flat" },
    -- no product: a server with 8 cards, and one NIC of 100 Gb/s
    { "pcie", gpu = { "l40s", "rtx4090", "rtx5090" }, gpus = 8, domain = 8, nics = 1,
      nic = nic(100), step = pcie_step, fabric = "flat" },
}

-- Fabrics by name: `rail`, whether the NICs of a node go to different leaf switches, each of which
-- joins the NICs of one place on all its nodes; `down`, NICs that have their full rate among each
-- other; `oversubscription`, how many times less a NIC has beyond them; `step`, as above.
local fabrics = {
    -- leaf switches of 64 ports, half of them down, full bisection above: DGX SuperPOD's reference
    -- architecture, 32 nodes to a rail's leaf
    { "rail", rail = true, down = 32, oversubscription = 1, step = net_step },
    -- the same switches, all NICs of a node on one leaf: 4 nodes of 8 NICs
    { "flat", rail = false, down = 32, oversubscription = 1, step = net_step },
    -- no product: as flat, with half the ports above
    { "tapered", rail = false, down = 32, oversubscription = 2, step = net_step },
    -- RoCE in pods of 3,072 GPUs with full bisection, 1:7 between pods (The Llama 3 Herd of Models,
    -- 3.3.1)
    { "roce-pods", rail = false, down = 3072, oversubscription = 7, step = net_step },
}

local function names(rows)
    local all = {}
    for i, row in ipairs(rows) do
        all[i] = row[1]
    end
    return all
end

local function find(rows, name)
    for _, row in ipairs(rows) do
        if row[1] == name then
            return row
        end
    end
end

local function is_built_with(node, gpu)
    for _, name in ipairs(node.gpu) do
        if name == gpu then
            return true
        end
    end
    return false
end

-- The first node of the table that is built with the GPU, unless one is named.
local function of(gpu, node_name, fabric_name)
    local node = find(nodes, node_name)
    for i = 1, node and 0 or #nodes do
        if is_built_with(nodes[i], gpu) then
            node = nodes[i]
            break
        end
    end
    local fabric = find(fabrics, fabric_name or node.fabric)
    return {
        node = node[1], fits = is_built_with(node, gpu), built = table.concat(node.gpu, ", "),
        first = node.gpu[1],
        gpus = node.gpus, domain = node.domain, nics = node.nics, nic = node.nic,
        step = node.step, price = node.price or 0,
        fabric = fabric[1], rail = fabric.rail, down = fabric.down,
        oversubscription = fabric.oversubscription, net_step = fabric.step,
    }
end

local function gpu_of(t)
    return find(gpus, t.gpu)
end

-- ---- a file of --machines ----------------------------------------------------------

local function name_of(what)
    return { "name", "string", pattern = "^[a-z][a-z0-9_.-]*$", max_bytes = 32,
             pattern_doc = "a lower-case letter, then lower-case letters, digits, `_`, `.` and `-`",
             example = '"' .. what .. '"', doc = "name in descriptions and options" }
end

-- A rate that a machine attains, in TFLOP/s or GB/s: a field with the same bounds in a row of
-- --machines and in a description, which may replace the row's. more: what else the field has.
local least = 1e-3
local function rate(name, doc, more)
    local field = { name, "number", min = least, max = 1e6, example = "400", doc = doc }
    for key, value in pairs(more or {}) do field[key] = value end
    return field
end

-- A share of another rate, which is a rate, too.
local function share_of(of, share)
    return math.max(least, share * of)
end

local fields = {
    { "gpus", "list", optional = true, example = '{ { name = "gh200", ... } }',
      doc = "GPUs of your own", item = { "gpu", "table", fields = {
        name_of "gh200",
        { "arch", "string", values = archs, example = '"sm_90a"',
          doc = "the architecture to compile for" },
        { "memory", "string", size = true, example = '"94GiB"', doc = "usable memory of an idle GPU" },
        rate("tflops", "TFLOP/s that bf16 products attain"),
        rate("bandwidth", "GB/s that kernels attain from memory"),
        rate("link", "GB/s that it receives from the others of its node"),
        rate("attention", "TFLOP/s of attention's forward", {
            default = function(t) return share_of(t.tflops, 0.36) end,
            default_text = "0.36 × `tflops`, as an H100" }),
        rate("attention_bwd", "TFLOP/s of its backward", {
            default = function(t) return share_of(t.tflops, 0.24) end,
            default_text = "0.24 × `tflops`" }),
        { "peak", "number", min = 0, max = 1e6, default = 0,
          doc = "dense bf16 TFLOP/s that the vendor states, for the MFU; 0: unknown" },
        { "sms", "int", min = 1, max = 1 << 16, default = 132,
          doc = "streaming multiprocessors, which share the tiles of a product; a sum over ranks that is "
              .. "limited takes at most half of them" },
        { "node", "string", optional = true, example = '"hgx-h100"',
          doc = "a shipped node with this GPU, unless a node of your own names the GPU" },
      } } },
    { "nodes", "list", optional = true, example = '{ { name = "lab", ... } }',
      doc = "nodes of your own", item = { "node", "table", fields = {
        name_of "lab",
        { "gpu", "list", alone = true, item = { "name", "string" }, example = '"h100"',
          doc = "names of the GPUs with which it is built" },
        { "gpus", "int", min = 1, max = 4096, example = "8", doc = "GPUs per node" },
        { "domain", "int", min = 1, max = 4096, default = function(t) return t.gpus end,
          default_text = "`gpus`",
          doc = "GPUs that NVLink or PCIe joins; more than `gpus` if it joins several nodes" },
        { "nics", "int", min = 1, max = 1024, example = "8", doc = "NICs per node" },
        rate("nic", "GB/s that each attains: 46 of 400 Gb/s"),
        { "step", "number", min = 0, max = 1e6, default = nvlink_step,
          doc = "microseconds that a step of a ring takes within a node: 3.4 over NVLink, 5.7 over PCIe" },
        { "price", "number", min = 0, max = 1e6, default = 0,
          doc = "price of a node in dollars per hour; 0: unknown" },
        { "fabric", "string", default = "flat", doc = "name of the fabric that joins it to others" },
      } } },
    { "fabrics", "list", optional = true, example = '{ { name = "campus", ... } }',
      doc = "fabrics of your own", item = { "fabric", "table", fields = {
        name_of "campus",
        { "rail", "bool", default = false,
          doc = "the NICs of a node go to different leaf switches" },
        { "down", "int", min = 1, max = 1 << 20, example = "32",
          doc = "number of NICs that reach their full rate among each other" },
        { "oversubscription", "number", min = 1, max = 1e3, default = 1,
          doc = "how many times slower a NIC is beyond these" },
        { "step", "number", min = 0, max = 1e6, default = net_step,
          doc = "microseconds that a step of a ring takes between nodes" },
      } } },
}

local function use(rows)
    return "use one of " .. table.concat(names(rows), ", ")
end

-- Appends rows to a table, each in the table's form; fail(path, problem, help) of a name that is there.
local function append(rows, own, what, form, fail)
    for i, row in ipairs(own or {}) do
        if find(rows, row.name) then
            fail(("%s[%d].name"):format(what, i), ('there is a "%s" already'):format(row.name),
                 "give it another name; fields of `target` replace single numbers")
        else
            rows[#rows + 1] = form(row)
        end
    end
end

local function named(row)
    row[1] = row.name
    return row
end

-- A GPU lies in the first node that names it, or in the one that it names.
local function place(gpu, path, fail)
    local node = gpu.node and find(nodes, gpu.node)
    if gpu.node and not node then
        fail(path .. ".node", ('no node is called "%s"'):format(gpu.node), use(nodes))
        return
    elseif node and not is_built_with(node, gpu.name) then
        node.gpu[#node.gpu + 1] = gpu.name
    end
    for _, row in ipairs(nodes) do
        node = node or is_built_with(row, gpu.name) and row
    end
    if not node then
        fail(path, ("no node is built with %s"):format(gpu.name),
             ('add node = "hgx-h100", or a row to nodes with gpu = "%s"'):format(gpu.name))
    end
end

-- Adds what a file of --machines returned, with every field filled in.
local function add(own, fail)
    append(gpus, own.gpus, "gpus", function(r)
        return { r.name, arch = r.arch, memory = r.memory,
                 rates = { r.tflops, r.bandwidth, r.link, r.peak, r.attention, r.attention_bwd, r.sms } }
    end, fail)
    append(fabrics, own.fabrics, "fabrics", named, fail)
    append(nodes, own.nodes, "nodes", named, fail)
    for i, node in ipairs(own.nodes or {}) do
        local path = ("nodes[%d]."):format(i)
        if #node.gpu == 0 then
            fail(path .. "gpu", "the list is empty", use(gpus))
        end
        for k, gpu in ipairs(node.gpu) do
            if not find(gpus, gpu) then
                fail(("%sgpu[%d]"):format(path, k), ('no GPU is called "%s"'):format(gpu), use(gpus))
            end
        end
        if not find(fabrics, node.fabric) then
            fail(path .. "fabric", ('no fabric is called "%s"'):format(node.fabric), use(fabrics))
        end
    end
    for i, gpu in ipairs(own.gpus or {}) do
        place(gpu, ("gpus[%d]"):format(i), fail)
    end
end

-- What describe.lua needs; built after `add`.
local function words()
    return { gpus = names(gpus), gpu_of = gpu_of, cudnn_rates = cudnn_rates, archs = archs,
             rate = rate, share_of = share_of,
             nodes = names(nodes), fabrics = names(fabrics) }
end

return { fields = fields, add = add, words = words, of = of }
